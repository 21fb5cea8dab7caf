/** The dialog for the styles of answers: ours may be reworded, own ones made and removed. */
import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { Dialog, showDialog } from '@jupyterlab/apputils';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';

import { styleLabel } from './choiceControls';
import { CommandIDs } from './commandIds';
import type { IStyles } from './contextWire';
import { RunError } from './errors';
import { IRunClient, IServerModel } from './tokens';

/** Longest wording that the server takes (characters). */
const LONGEST = 8000;

interface IStylesFormProps {
  readonly client: IRunClient;
  readonly server: IServerModel;
  readonly trans: TranslationBundle;
}

function StylesForm({
  client,
  server,
  trans
}: IStylesFormProps): React.ReactElement {
  const [styles, setStyles] = React.useState<IStyles['styles'] | null>(null);
  const [chosen, setChosen] = React.useState('compact');
  const [name, setName] = React.useState('');
  const [wording, setWording] = React.useState('');
  const [message, setMessage] = React.useState('');
  const [busy, setBusy] = React.useState(true);

  const act = React.useCallback(
    async (
      action: () => Promise<IStyles>,
      select: string,
      done: string
    ): Promise<void> => {
      setBusy(true);
      try {
        const found = (await action()).styles;
        const shown = found[select] ? select : (Object.keys(found)[0] ?? NEW);
        setStyles(found);
        setChosen(shown);
        setWording(found[shown]?.wording ?? '');
        setMessage(done);
        if (done) {
          void server.refresh();
        }
      } catch (reason) {
        setMessage(
          reason instanceof RunError ? reason.message : String(reason)
        );
      } finally {
        setBusy(false);
      }
    },
    [server]
  );

  React.useEffect(() => {
    void act(() => client.styles(), 'compact', '');
  }, [act, client]);

  const select = (style: string): void => {
    setChosen(style);
    setName('');
    setWording(styles?.[style]?.wording ?? '');
    setMessage('');
  };
  const isNew = chosen === NEW;
  const shown = styles?.[chosen] ?? null;
  const saveAs = (isNew ? name : chosen).trim();
  const taken = isNew && styles?.[saveAs] !== undefined;
  const changed = isNew ? Boolean(wording.trim()) : wording !== shown?.wording;
  return (
    <form
      className="nbinline-Styles"
      onSubmit={event => {
        event.preventDefault();
        void act(
          () => client.setStyle(saveAs, wording),
          saveAs,
          trans.__('The style has been saved.')
        );
      }}
    >
      <p>
        {trans.__(
          'A style tells the model how to answer where the question leaves it open. Styles are kept on this server, for everybody who works on it.'
        )}
      </p>
      <div className="nbinline-Styles-line">
        <label htmlFor="nbinline-style-chosen">{trans.__('Style')}</label>
        <select
          id="nbinline-style-chosen"
          className="jp-mod-styled"
          value={chosen}
          disabled={busy}
          onChange={event => select(event.target.value)}
        >
          {Object.entries(styles ?? {}).map(([style, { builtin, own }]) => (
            <option key={style} value={style}>
              {builtin && own
                ? trans.__('%1 (own wording)', styleLabel(style, trans))
                : styleLabel(style, trans)}
            </option>
          ))}
          <option value={NEW}>{trans.__('New style…')}</option>
        </select>
      </div>
      {isNew && (
        <div className="nbinline-Styles-line">
          <label htmlFor="nbinline-style-name">{trans.__('Name')}</label>
          <input
            id="nbinline-style-name"
            className="jp-mod-styled"
            value={name}
            maxLength={40}
            disabled={busy}
            onChange={event => setName(event.target.value)}
          />
        </div>
      )}
      <textarea
        className="jp-mod-styled"
        aria-label={trans.__('Wording')}
        rows={9}
        maxLength={LONGEST}
        value={wording}
        disabled={busy}
        onChange={event => setWording(event.target.value)}
      />
      <div className="nbinline-Styles-line">
        <button
          type="submit"
          className="jp-mod-styled jp-mod-accept"
          disabled={busy || !saveAs || taken || !wording.trim() || !changed}
        >
          {trans.__('Save')}
        </button>
        <button
          type="button"
          className="jp-mod-styled jp-mod-reject"
          disabled={busy || !shown?.own}
          onClick={() =>
            void act(
              () => client.removeStyle(chosen),
              chosen,
              shown?.builtin
                ? trans.__('Our own wording holds again.')
                : trans.__('The style has been removed.')
            )
          }
        >
          {shown?.builtin
            ? trans.__('Back to our wording')
            : trans.__('Remove')}
        </button>
        <span role="status" aria-live="polite">
          {taken ? trans.__('There is a style of that name.') : message}
        </span>
      </div>
    </form>
  );
}

const NEW = '\u0000new';

export const stylesPlugin: JupyterFrontEndPlugin<void> = {
  id: '@nbinline/lab:styles',
  description: 'Adds the dialog for the styles of answers.',
  autoStart: true,
  requires: [IRunClient, IServerModel],
  optional: [ITranslator],
  activate: (
    app: JupyterFrontEnd,
    client: IRunClient,
    server: IServerModel,
    translator: ITranslator | null
  ) => {
    const trans = (translator ?? nullTranslator).load('nbinline');
    app.commands.addCommand(CommandIDs.openStyles, {
      label: trans.__('AI Answer Styles…'),
      execute: async () => {
        await showDialog({
          title: trans.__('Styles of AI answers'),
          body: ReactWidget.create(
            <StylesForm client={client} server={server} trans={trans} />
          ),
          buttons: [Dialog.okButton({ label: trans.__('Close') })]
        });
      },
      describedBy: { args: { type: 'object', properties: {} } }
    });
  }
};
