/** The folded transcript of a run under its answer's badge; asked for when opened. */
import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IRunClient } from './tokens';
import { steps } from './transcript';
import type { IStep, StepOutcome } from './transcript';
import type { IRunEvent } from './wire';

/** Seconds the server may wait for news. */
const WAIT = 20;

/** Time until the next try after a failure (ms). */
const RETRY = 5000;

export interface ITranscriptProps {
  readonly id: string;
  readonly runId: string;
  /** Whether there may be more to come. */
  readonly running: boolean;
  readonly client: IRunClient;
  /** How people call a cell. */
  readonly cellName: (cellId: string) => string;
  readonly trans: TranslationBundle;
}

/** All steps of a run; follows it while it goes on. */
export function Transcript(props: ITranscriptProps): React.ReactElement {
  const { id, runId, running, client, cellName, trans } = props;
  const [events, setEvents] = React.useState<readonly IRunEvent[] | null>(null);
  const [gap, setGap] = React.useState(false);
  const [problem, setProblem] = React.useState('');

  React.useEffect(() => {
    let stopped = false;
    let timer = 0;
    const known: IRunEvent[] = [];
    let last = 0;
    const ask = async (wait: number): Promise<void> => {
      try {
        const page = await client.events(runId, last, wait);
        if (stopped) {
          return;
        }
        last = Math.max(last, page.last_seq);
        known.push(...page.events);
        setEvents([...known]);
        setGap(before => before || page.gap);
        setProblem('');
        if (running || page.events.length > 0) {
          timer = window.setTimeout(() => void ask(running ? WAIT : 0), 100);
        }
      } catch (reason) {
        if (!stopped) {
          setProblem(reason instanceof Error ? reason.message : String(reason));
          timer = window.setTimeout(() => void ask(0), RETRY);
        }
      }
    };
    void ask(0);
    return () => {
      stopped = true;
      window.clearTimeout(timer);
    };
  }, [client, runId, running]);

  const found = steps(events ?? []);
  return (
    <div
      id={id}
      className="nbinline-Transcript"
      role="region"
      aria-label={trans.__('Steps of the AI answer')}
    >
      {problem && <p className="nbinline-Transcript-note">{problem}</p>}
      {events === null && !problem && (
        <p className="nbinline-Transcript-note">{trans.__('Loading…')}</p>
      )}
      {gap && (
        <p className="nbinline-Transcript-note">
          {trans.__('The first steps are no longer known.')}
        </p>
      )}
      {events !== null && found.length === 0 && (
        <p className="nbinline-Transcript-note">
          {running
            ? trans.__('No tool has been used so far.')
            : trans.__('No tool was used.')}
        </p>
      )}
      <ol className="nbinline-Transcript-steps">
        {found.map(step => (
          <Step
            key={step.callId}
            step={step}
            running={running}
            cellName={cellName}
            trans={trans}
          />
        ))}
      </ol>
    </div>
  );
}

interface IStepProps {
  readonly step: IStep;
  readonly running: boolean;
  readonly cellName: (cellId: string) => string;
  readonly trans: TranslationBundle;
}

function Step({
  step,
  running,
  cellName,
  trans
}: IStepProps): React.ReactElement {
  const outcome =
    step.outcome === 'running' && !running ? 'cancelled' : step.outcome;
  return (
    <li className="nbinline-Transcript-step" data-outcome={outcome}>
      <details>
        <summary>
          <code>{step.name}</code>
          <span className="nbinline-Transcript-target">
            {step.cellIds.map(cellName).join(', ')}
          </span>
          <span className="nbinline-Transcript-outcome">
            {outcomeText(outcome, trans)}
            {step.seconds !== null &&
              ` · ${trans.__('%1 s', duration(step.seconds))}`}
          </span>
        </summary>
        {step.diff !== null ? (
          <pre tabIndex={0} aria-label={trans.__('Changes')}>
            {step.diff.map(({ kind, text }, place) => (
              <span key={place} className="nbinline-Diff-line" data-kind={kind}>
                {`${text}\n`}
              </span>
            ))}
          </pre>
        ) : (
          step.arguments && (
            <pre tabIndex={0} aria-label={trans.__('Arguments')}>
              {step.arguments}
            </pre>
          )
        )}
        {step.summary && (
          <pre tabIndex={0} aria-label={trans.__('Result')}>
            {step.summary}
          </pre>
        )}
      </details>
    </li>
  );
}

function outcomeText(outcome: StepOutcome, trans: TranslationBundle): string {
  switch (outcome) {
    case 'running':
      return trans.__('running…');
    case 'ok':
      return trans.__('done');
    case 'denied':
      return trans.__('denied');
    case 'cancelled':
      return trans.__('stopped');
    case 'error':
      return trans.__('failed');
  }
}

function duration(seconds: number): string {
  if (seconds < 0.1) {
    return '< 0.1';
  }
  return seconds < 10 ? seconds.toFixed(1) : seconds.toFixed(0);
}
