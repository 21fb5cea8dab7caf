/** Signing in to the Codex connection, in the dialog of connections. */
import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { RunError } from './errors';
import type { IRunClient } from './tokens';
import type { ICodexState } from './wire';

/** The connection that signs in instead of having a key. */
export const CODEX = 'openai_codex_subscription';

/** Milliseconds between looks while somebody signs in. */
const LOOK_EVERY = 2000;

interface ICodexSignInProps {
  readonly client: IRunClient;
  readonly trans: TranslationBundle;
  /** The account has changed. */
  readonly onChange: () => void;
}

export function CodexSignIn({
  client,
  trans,
  onChange
}: ICodexSignInProps): React.ReactElement | null {
  const [state, setState] = React.useState<ICodexState | null>(null);
  const [busy, setBusy] = React.useState(false);
  const [message, setMessage] = React.useState('');

  const act = React.useCallback(
    async (action: () => Promise<ICodexState>): Promise<void> => {
      setBusy(true);
      setMessage('');
      try {
        setState(await action());
        onChange();
      } catch (reason) {
        setMessage(
          reason instanceof RunError ? reason.message : String(reason)
        );
      } finally {
        setBusy(false);
      }
    },
    [onChange]
  );

  React.useEffect(() => {
    let gone = false;
    client.codex(false).then(
      found => !gone && setState(found),
      () => undefined
    );
    return () => {
      gone = true;
    };
  }, [client]);

  const waiting = state?.login?.state === 'waiting';
  React.useEffect(() => {
    if (!waiting) {
      return;
    }
    let gone = false;
    const timer = window.setInterval(() => {
      client.codex(false).then(
        found => {
          if (!gone) {
            setState(found);
            if (found.login?.state !== 'waiting') {
              onChange();
            }
          }
        },
        () => undefined
      );
    }, LOOK_EVERY);
    return () => {
      gone = true;
      window.clearInterval(timer);
    };
  }, [client, onChange, waiting]);

  if (state === null) {
    return null;
  }
  const button = (
    label: string,
    action: () => Promise<ICodexState>
  ): React.ReactElement => (
    <button
      type="button"
      className="jp-mod-styled"
      disabled={busy}
      onClick={() => void act(action)}
    >
      {label}
    </button>
  );
  return (
    <div className="nbinline-Codex">
      {state.login && waiting && (
        <p role="status">
          <a href={state.login.url} target="_blank" rel="noopener noreferrer">
            {trans.__('Open the sign-in page')}
          </a>
          {state.login.code &&
            ` ${trans.__('and type the code %1', state.login.code)}`}
        </p>
      )}
      <div className="nbinline-Keys-form">
        {waiting
          ? button(trans.__('Cancel signing in'), () => client.codexCancel())
          : state.signed_in
            ? [
                <React.Fragment key="usage">
                  {button(trans.__('Show usage'), () => client.codex(true))}
                </React.Fragment>,
                <React.Fragment key="out">
                  {button(trans.__('Disconnect'), () =>
                    client.codexDisconnect()
                  )}
                </React.Fragment>
              ]
            : [
                <React.Fragment key="device">
                  {button(trans.__('Sign in with a code'), () =>
                    client.codexSignIn('device')
                  )}
                </React.Fragment>,
                <React.Fragment key="browser">
                  {button(trans.__('Sign in on the server’s machine'), () =>
                    client.codexSignIn('browser')
                  )}
                </React.Fragment>
              ]}
      </div>
      {state.usage && <p>{usageText(state, trans)}</p>}
      {state.login?.state === 'failed' && (
        <p role="status">{trans.__('Signing in failed. Try again.')}</p>
      )}
      {message && <p role="alert">{message}</p>}
    </div>
  );
}

/** How much of the subscription is used, in a line. */
export function usageText(
  state: ICodexState,
  trans: TranslationBundle
): string {
  const { primary, secondary } = state.usage ?? {};
  const used = [primary, secondary]
    .map(window => window?.used_percent)
    .filter((percent): percent is number => typeof percent === 'number')
    .map(percent => trans.__('%1 % used', Math.round(percent)));
  const who = state.account?.email ?? state.account?.type ?? '';
  return [who, ...used].filter(Boolean).join(' · ');
}
