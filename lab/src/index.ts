/** The plugins of nbinline in JupyterLab, one a concern. */
import { activityPlugin } from './activityPlugin';
import { agentMarkdownPlugin } from './agentMarkdown';
import { announcerPlugin } from './announcer';
import { answerBadgePlugin } from './answerBadges';
import { approvalCardPlugin } from './approvalCard';
import { attachImagesPlugin } from './attachImages';
import { authorshipPlugin } from './authorshipMarks';
import { clientPlugin } from './client';
import { commandsPlugin } from './commands';
import { contextBoxesPlugin } from './contextBoxes';
import { copyButtonsPlugin } from './copyButtons';
import { executorPlugin } from './executor';
import { liveMarkdownPlugin } from './liveMarkdown';
import { livenessPlugin } from './liveness';
import { notebooksPlugin, promptsPlugin } from './notebookPrompts';
import { notebookContextPlugin } from './notebookContext';
import { notebookRowPlugin } from './notebookRow';
import { promptHeaderPlugin } from './promptHeaders';
import { runsPlugin } from './runs';
import { serverPlugin } from './serverModel';
import { settingsPlugin } from './settings';
import { stalenessPlugin } from './staleness';
import { stylesPlugin } from './stylesDialog';
import { toolsPlugin } from './toolsDialog';

export * from './tokens';

export default [
  clientPlugin,
  serverPlugin,
  promptsPlugin,
  notebooksPlugin,
  runsPlugin,
  livenessPlugin,
  agentMarkdownPlugin,
  executorPlugin,
  commandsPlugin,
  settingsPlugin,
  notebookContextPlugin,
  notebookRowPlugin,
  contextBoxesPlugin,
  promptHeaderPlugin,
  stylesPlugin,
  toolsPlugin,
  stalenessPlugin,
  attachImagesPlugin,
  copyButtonsPlugin,
  answerBadgePlugin,
  approvalCardPlugin,
  authorshipPlugin,
  activityPlugin,
  liveMarkdownPlugin,
  announcerPlugin
];
