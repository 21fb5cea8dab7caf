/** What a request holds, in words: for the notebook's Details and for a run that was made. */
import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { styleLabel } from './choiceControls';
import {
  counterText,
  countsText,
  cutsText,
  modeText,
  outputsText,
  sizeText
} from './contextText';
import type { IContextReport } from './contextWire';

export interface IReportProps {
  readonly report: IContextReport;
  readonly cellName: (id: string) => string;
  readonly trans: TranslationBundle;
}

/** Counts, meter, cuts, tools and values of one request. */
export function Report(props: IReportProps): React.ReactElement {
  const { report, cellName, trans } = props;
  const cuts = cutsText(report, cellName, trans);
  const values = report.variables.map(each =>
    typeof each === 'string' ? each : each.expression
  );
  const images = (report.images ?? []).filter(each => !each.problem);
  return (
    <div className="nbinline-Report">
      <Meter report={report} trans={trans} />
      <ul className="nbinline-Report-facts">
        <li>
          {countsText(report, trans)}
          {report.history.length > 0 &&
            ` · ${trans._n(
              '%1 earlier exchange',
              '%1 earlier exchanges',
              report.counts?.history ?? report.history.length
            )}`}
        </li>
        <li>
          {[
            modeText(report.mode, trans),
            outputsText(report.outputs, trans),
            trans.__('Style: %1', styleLabel(report.style, trans))
          ].join(' · ')}
        </li>
        {report.tools_offered.length > 0 && (
          <li>{trans.__('Tools: %1', listed(report.tools_offered, trans))}</li>
        )}
        {values.length > 0 && (
          <li>{trans.__('Live values: %1', listed(values, trans))}</li>
        )}
        {images.length > 0 && (
          <li>
            {trans._n('%1 image', '%1 images', images.length)}
            {`: ${images.map(each => each.name).join(', ')}`}
          </li>
        )}
      </ul>
      {cuts.length > 0 && (
        <ul
          className="nbinline-Report-cuts"
          aria-label={trans.__('What was cut, and why')}
        >
          {cuts.map(cut => (
            <li key={cut}>{cut}</li>
          ))}
        </ul>
      )}
    </div>
  );
}

/** How full the request is. */
function Meter({
  report,
  trans
}: Pick<IReportProps, 'report' | 'trans'>): React.ReactElement {
  const text = sizeText(report, trans);
  const share = Math.min(1, report.used / Math.max(1, report.allowed));
  return (
    <div className="nbinline-Meter" title={counterText(report, trans)}>
      <meter
        min={0}
        max={Math.max(1, report.allowed)}
        value={Math.min(report.used, report.allowed)}
        aria-label={trans.__('Size of the request')}
        aria-valuetext={text}
      />
      <div className="nbinline-Meter-bar" aria-hidden="true">
        <div style={{ width: `${(share * 100).toFixed(1)}%` }} />
      </div>
      <span>{text}</span>
    </div>
  );
}

const LISTED = 12;

function listed(names: readonly string[], trans: TranslationBundle): string {
  const shown = names.slice(0, LISTED).join(', ');
  const more = names.length - LISTED;
  return more > 0 ? trans.__('%1 and %2 more', shown, more) : shown;
}
