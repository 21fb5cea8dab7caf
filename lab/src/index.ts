/** The plugins of nbinline in JupyterLab, one a concern. */
import { announcerPlugin } from './announcer';
import { answerBadgePlugin } from './answerBadges';
import { approvalCardPlugin } from './approvalCard';
import { clientPlugin } from './client';
import { commandsPlugin } from './commands';
import { executorPlugin } from './executor';
import { liveMarkdownPlugin } from './liveMarkdown';
import { livenessPlugin } from './liveness';
import { notebooksPlugin, promptsPlugin } from './notebookPrompts';
import { promptHeaderPlugin } from './promptHeader';
import { runsPlugin } from './runs';
import { serverPlugin } from './serverModel';
import { settingsPlugin } from './settings';

export * from './tokens';

export default [
  clientPlugin,
  serverPlugin,
  promptsPlugin,
  notebooksPlugin,
  runsPlugin,
  livenessPlugin,
  executorPlugin,
  commandsPlugin,
  settingsPlugin,
  promptHeaderPlugin,
  answerBadgePlugin,
  approvalCardPlugin,
  liveMarkdownPlugin,
  announcerPlugin
];
