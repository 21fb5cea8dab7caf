/** The words for what goes along with a question. */
import type { TranslationBundle } from '@jupyterlab/translation';

import type { ICellMark } from './contextMarks';
import type {
  ContextMode,
  IContextReport,
  OutputsChoice,
  ITruncation,
  IAttachedImage
} from './contextWire';

/** The name of a mode. */
export function modeText(mode: ContextMode, trans: TranslationBundle): string {
  switch (mode) {
    case 'default':
      return trans.__('Default');
    case 'full-notebook':
      return trans.__('Full notebook');
    case 'all-above':
      return trans.__('All above');
    case 'ten-above':
      return trans.__('10 above');
    case 'ten-above-below':
      return trans.__('10 above + below');
    case 'custom':
      return trans.__('Custom');
    case 'current-only':
      return trans.__('Current question only');
  }
}

/** How much of the outputs goes along. */
export function outputsText(
  outputs: OutputsChoice,
  trans: TranslationBundle
): string {
  switch (outputs) {
    case 'none':
      return trans.__('No outputs');
    case 'summaries':
      return trans.__('Summaries of outputs');
    case 'full':
      return trans.__('Whole outputs');
  }
}

/** Why a cell cannot go along. */
export function reasonText(reason: string, trans: TranslationBundle): string {
  switch (reason) {
    case 'current-question':
      return trans.__('Current question · always included');
    case 'answer-to-current-question':
      return trans.__('Answer to the current question · never sent');
    case 'raw-cell':
      return trans.__('Raw cells are never sent');
    case 'empty-cell':
      return trans.__('Empty');
    case 'answer-not-complete':
      return trans.__('Unfinished answers are never sent');
    case 'orphan-answer':
      return trans.__('Its question is gone');
    case 'default-requires-earlier-complete-pair':
      return trans.__('Needs a finished question and answer above');
    case 'hidden-by-policy':
      return trans.__('Hidden by this course');
    default:
      return reason;
  }
}

/** The note beside a cell's Context box; empty if there is nothing to say. */
export function noteText(
  mark: ICellMark | null,
  above: boolean,
  trans: TranslationBundle
): string {
  switch (mark?.fate) {
    case 'question':
    case 'ineligible':
      return reasonText(mark.reason ?? '', trans);
    case 'partial':
      return above
        ? trans.__('only its ending fits')
        : trans.__('only its beginning fits');
    case 'omitted':
      return trans.__('left out: no room');
    case 'included':
      return mark.outputsCut ? trans.__('without its outputs: no room') : '';
    default:
      return '';
  }
}

/** "5 cells above, 2 below" with what was cut. */
export function countsText(
  report: IContextReport,
  trans: TranslationBundle
): string {
  const sum = ({ included, partial }: IContextReport['above']): number =>
    included + partial;
  const left = report.above.omitted + report.below.omitted;
  const parts = [
    trans._n('%1 cell above', '%1 cells above', sum(report.above)),
    trans._n('%1 below', '%1 below', sum(report.below))
  ];
  if (left > 0) {
    parts.push(trans._n('%1 left out', '%1 left out', left));
  }
  return parts.join(', ');
}

/** "1,234 of 64,000 characters". */
export function sizeText(
  report: IContextReport,
  trans: TranslationBundle
): string {
  const used = report.used.toLocaleString();
  const allowed = report.allowed.toLocaleString();
  return report.unit === 'tokens'
    ? trans.__('%1 of %2 tokens', used, allowed)
    : trans.__('%1 of %2 characters', used, allowed);
}

/** How the size was counted. */
export function counterText(
  report: IContextReport,
  trans: TranslationBundle
): string {
  return report.unit === 'tokens'
    ? trans.__('Estimated: %1', report.counter)
    : trans.__('Counted: %1', report.counter);
}

/** Everything that was cut or could not go, one sentence each. */
export function cutsText(
  report: IContextReport,
  cellName: (id: string) => string,
  trans: TranslationBundle
): string[] {
  const said = report.truncations.map(each =>
    truncationText(each, cellName, trans)
  );
  const omitted = report.counts?.omitted ?? report.omitted.length;
  if (omitted > 0) {
    const named = report.omitted.slice(0, 5).map(cellName).join(', ');
    const more = omitted - Math.min(5, report.omitted.length);
    said.push(
      more > 0
        ? trans.__('Left out, no room: %1 and %2 more', named, more)
        : trans.__('Left out, no room: %1', named)
    );
  }
  for (const image of report.images ?? []) {
    const text = imageText(image, trans);
    if (text !== null) {
      said.push(text);
    }
  }
  for (const [name, problem] of Object.entries(report.tool_problems ?? {})) {
    said.push(
      trans.__(
        'Tool %1 is not offered: %2',
        name,
        toolProblemText(problem, trans)
      )
    );
  }
  for (const [kind, count] of Object.entries(report.secrets ?? {})) {
    said.push(trans.__('Secrets left out: %1 (%2)', count, kind));
  }
  return said;
}

function truncationText(
  cut: ITruncation,
  cellName: (id: string) => string,
  trans: TranslationBundle
): string {
  const name = cellName(cut.id);
  if (cut.what === 'outputs') {
    return trans.__('Outputs of %1 left out, no room', name);
  }
  const sent = cut.sent_characters.toLocaleString();
  const all = cut.characters?.toLocaleString() ?? '?';
  if (cut.what === 'answer') {
    return trans.__(
      'Of the answer so far only the last %1 of %2 characters are sent',
      sent,
      all
    );
  }
  return cut.kept === 'ending'
    ? trans.__('Of %1 the last %2 of %3 characters', name, sent, all)
    : trans.__('Of %1 the first %2 of %3 characters', name, sent, all);
}

function imageText(
  image: IAttachedImage,
  trans: TranslationBundle
): string | null {
  switch (image.problem) {
    case '':
      return image.scaled
        ? trans.__(
            'Image %1 is sent smaller, %2×%3',
            image.name,
            image.width,
            image.height
          )
        : null;
    case 'model-takes-no-images':
      return trans.__(
        'Image %1 is not sent: the model takes no images',
        image.name
      );
    case 'missing':
      return trans.__('Image %1 is not attached to the question', image.name);
    case 'too-many':
      return trans.__('Image %1 is not sent: too many images', image.name);
    default:
      return trans.__(
        'Image %1 is not sent: it cannot be read as a picture',
        image.name
      );
  }
}

function toolProblemText(problem: string, trans: TranslationBundle): string {
  switch (problem) {
    case 'tools-box-off':
      return trans.__('its Tools box is off');
    case 'off':
      return trans.__('switched off on this server');
    case 'no-kernel':
      return trans.__('no kernel runs');
    case 'unknown':
      return trans.__('nothing has that name');
    default:
      return problem;
  }
}
