/** The dialog for keys and the default connection. A key is sent once and never shown. */
import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { Dialog, showDialog } from '@jupyterlab/apputils';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';

import { CODEX, CodexSignIn } from './codexSignIn';
import { CommandIDs } from './commandIds';
import { RunError } from './errors';
import { IRunClient, IServerModel } from './tokens';
import type { IKeys, IKeyState } from './wire';

interface IKeysFormProps {
  readonly client: IRunClient;
  readonly server: IServerModel;
  readonly trans: TranslationBundle;
}

/** All connections, one row each. */
function KeysForm({
  client,
  server,
  trans
}: IKeysFormProps): React.ReactElement {
  const [keys, setKeys] = React.useState<IKeys | null>(null);
  const [message, setMessage] = React.useState('');
  const [busy, setBusy] = React.useState(true);

  const act = React.useCallback(
    async (action: () => Promise<void>, done: string) => {
      setBusy(true);
      try {
        await action();
        setKeys(await client.keys());
        setMessage(done);
        void server.refresh();
      } catch (reason) {
        setMessage(
          reason instanceof RunError ? reason.message : String(reason)
        );
      } finally {
        setBusy(false);
      }
    },
    [client, server]
  );

  const refresh = React.useCallback(() => {
    void client.keys().then(setKeys, () => undefined);
    void server.refresh();
  }, [client, server]);

  React.useEffect(() => {
    void act(() => Promise.resolve(), '');
  }, [act]);

  return (
    <div className="nbinline-Keys">
      <p>
        {trans.__(
          'Keys are kept on the server, in a file only you can read. They are never shown again, and never written to a notebook.'
        )}
      </p>
      {keys && (
        <div
          role="radiogroup"
          aria-label={trans.__('Default connection')}
          className="nbinline-Keys-list"
        >
          {Object.entries(keys.connections).map(([id, state]) => (
            <ConnectionRow
              key={id}
              id={id}
              state={state}
              label={state.label ?? server.status?.connections[id]?.label ?? id}
              notice={server.status?.connections[id]?.notice ?? null}
              isDefault={keys.default_connection === id}
              disabled={busy}
              trans={trans}
              onSet={key =>
                act(
                  () => client.setKey(id, key),
                  trans.__('The key has been saved.')
                )
              }
              onRemove={() =>
                act(
                  () => client.removeKey(id),
                  trans.__('The key has been removed.')
                )
              }
              account={
                id === CODEX ? (
                  <CodexSignIn
                    client={client}
                    trans={trans}
                    onChange={refresh}
                  />
                ) : null
              }
              onDefault={() => {
                setKeys({ ...keys, default_connection: id });
                return act(
                  () => client.setDefaultConnection(id),
                  trans.__('The default connection has been changed.')
                );
              }}
            />
          ))}
        </div>
      )}
      <p role="status" aria-live="polite" className="nbinline-Keys-message">
        {message}
      </p>
    </div>
  );
}

interface IConnectionRowProps {
  readonly id: string;
  readonly state: IKeyState;
  readonly label: string;
  readonly notice: string | null;
  readonly isDefault: boolean;
  readonly disabled: boolean;
  /** What stands in the place of a key. */
  readonly account: React.ReactNode;
  readonly trans: TranslationBundle;
  readonly onSet: (key: string) => Promise<void>;
  readonly onRemove: () => Promise<void>;
  readonly onDefault: () => Promise<void>;
}

function ConnectionRow(props: IConnectionRowProps): React.ReactElement {
  const { id, state, label, notice, isDefault, disabled, trans } = props;
  const [key, setKey] = React.useState('');
  const save = async (): Promise<void> => {
    const value = key.trim();
    setKey('');
    if (value) {
      await props.onSet(value);
    }
  };
  return (
    <fieldset className="nbinline-Keys-row" disabled={disabled}>
      <legend>{label}</legend>
      <span className="nbinline-Keys-state">{stateText(id, state, trans)}</span>
      <label className="nbinline-Keys-default">
        <input
          type="radio"
          name="nbinline-default-connection"
          checked={isDefault}
          onChange={() => void props.onDefault()}
        />
        {trans.__('Default')}
      </label>
      {notice && <p className="nbinline-Keys-notice">{notice}</p>}
      {props.account}
      {needsKey(id) && (
        <form
          className="nbinline-Keys-form"
          onSubmit={event => {
            event.preventDefault();
            void save();
          }}
        >
          <input
            className="jp-mod-styled"
            type="password"
            autoComplete="off"
            spellCheck={false}
            value={key}
            placeholder={
              state.source === 'saved'
                ? trans.__('A new key replaces the saved one')
                : trans.__('Paste a key here')
            }
            aria-label={trans.__('Key for %1', label)}
            onChange={event => setKey(event.target.value)}
          />
          <button
            type="submit"
            className="jp-mod-styled jp-mod-accept"
            disabled={!key.trim()}
            aria-label={trans.__('Save the key for %1', label)}
          >
            {trans.__('Save')}
          </button>
          <button
            type="button"
            className="jp-mod-styled jp-mod-reject"
            disabled={state.source !== 'saved'}
            aria-label={trans.__('Remove the key for %1', label)}
            onClick={() => void props.onRemove()}
          >
            {trans.__('Remove')}
          </button>
        </form>
      )}
    </fieldset>
  );
}

/** The model that runs on this machine has no key, and a subscription signs in. */
function needsKey(id: string): boolean {
  return id !== 'local' && id !== CODEX;
}

function stateText(
  id: string,
  state: IKeyState,
  trans: TranslationBundle
): string {
  if (id === CODEX) {
    return state.configured
      ? trans.__('Ready, signed in')
      : trans.__('Not signed in');
  }
  if (!state.configured) {
    return needsKey(id) ? trans.__('Not set up') : trans.__('Not installed');
  }
  switch (state.source) {
    case 'saved':
      return trans.__('Ready, with a saved key');
    case 'environment':
      return trans.__("Ready, with a key from the server's environment");
    default:
      return trans.__('Ready, needs no key');
  }
}

export const settingsPlugin: JupyterFrontEndPlugin<void> = {
  id: '@nbinline/lab:keys',
  description: 'Adds the dialog for keys and the default connection.',
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
    app.commands.addCommand(CommandIDs.openKeys, {
      label: trans.__('AI Connections and Keys…'),
      execute: async () => {
        void server.refresh();
        await showDialog({
          title: trans.__('AI connections and keys'),
          body: ReactWidget.create(
            <KeysForm client={client} server={server} trans={trans} />
          ),
          buttons: [Dialog.okButton({ label: trans.__('Close') })]
        });
      },
      describedBy: { args: { type: 'object', properties: {} } }
    });
  }
};
