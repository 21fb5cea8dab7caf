/** Reading the plugin's settings. */
import type { ISettingRegistry } from '@jupyterlab/settingregistry';

const SETTINGS_ID = '@nbinline/lab:plugin';

/** Call back with the settings as soon as they are there, and when they change. */
export function followSettings(
  registry: ISettingRegistry | null,
  read: (settings: ISettingRegistry.ISettings) => void
): void {
  registry?.load(SETTINGS_ID).then(
    settings => {
      settings.changed.connect(() => read(settings));
      read(settings);
    },
    (reason: unknown) => {
      console.error('Failed to load the settings of AI prompts', reason);
    }
  );
}
