import { LabIcon } from '@jupyterlab/ui-components';

import promptSvg from '../style/icons/prompt.svg';

/** The mark of questions and answers. */
export const promptIcon = new LabIcon({
  name: 'nbinline:prompt',
  svgstr: promptSvg
});
