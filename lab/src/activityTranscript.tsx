/** The transcript of a run, to read and to save as a file. */
import { Dialog, showDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';

import type { IWatchedRun } from './activity';
import { TRANSCRIPT_FORMATS } from './activityWire';
import type { TranscriptFormat } from './activityWire';
import type { IRunClient } from './tokens';

export interface ITranscriptOptions {
  readonly client: IRunClient;
  readonly trans: TranslationBundle;
}

const ENDINGS: Record<TranscriptFormat, string> = {
  markdown: 'md',
  json: 'json',
  csv: 'csv'
};

/** Show the transcript of a run; null: offer those of all runs that one may see as files. */
export async function showTranscript(
  run: IWatchedRun | null,
  { client, trans }: ITranscriptOptions
): Promise<void> {
  await showDialog({
    title:
      run === null
        ? trans.__('Export transcripts')
        : trans.__('Transcript of a run in %1', run.path),
    body: ReactWidget.create(
      <TranscriptText run={run} client={client} trans={trans} />
    ),
    buttons: [Dialog.okButton({ label: trans.__('Close') })]
  });
}

interface ITranscriptTextProps extends ITranscriptOptions {
  readonly run: IWatchedRun | null;
}

function TranscriptText(props: ITranscriptTextProps): React.ReactElement {
  const { run, client, trans } = props;
  const runId = run?.runId ?? null;
  const [text, setText] = React.useState<string | null>(null);
  const [problem, setProblem] = React.useState('');
  const failed = (reason: unknown): void =>
    setProblem(reason instanceof Error ? reason.message : String(reason));

  React.useEffect(() => {
    if (runId !== null) {
      client.transcript(runId, 'markdown').then(setText, failed);
    }
  }, [client, runId]);

  const save = async (format: TranscriptFormat): Promise<void> => {
    try {
      const file = await client.transcript(runId, format);
      download(`${runId ?? 'ai-runs'}.${ENDINGS[format]}`, file);
      setProblem('');
    } catch (reason) {
      failed(reason);
    }
  };

  return (
    <div className="nbinline-TranscriptText">
      <p>
        {runId === null
          ? trans.__(
              'All runs that you may see, newest first. That you took them is recorded in the runs of others.'
            )
          : trans.__('That you read it is recorded in runs of others.')}
      </p>
      {runId !== null && (
        <pre tabIndex={0} aria-label={trans.__('Transcript')}>
          {text ?? trans.__('Loading…')}
        </pre>
      )}
      <div className="nbinline-Activity-bar">
        {TRANSCRIPT_FORMATS.map(format => (
          <button
            key={format}
            className="nbinline-CellBar-button"
            onClick={() => void save(format)}
          >
            {trans.__('Save as %1', ENDINGS[format].toUpperCase())}
          </button>
        ))}
        <span role="status">{problem}</span>
      </div>
    </div>
  );
}

function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text]));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
