/** Ids of our commands; those about a question or answer take `{cellId?: string}`. */
export namespace CommandIDs {
  export const insertPrompt = 'nbinline:insert-prompt';
  export const run = 'nbinline:run';
  export const stop = 'nbinline:stop';
  export const continueAnswer = 'nbinline:continue';
  export const runAgain = 'nbinline:run-again';
  export const revertRun = 'nbinline:revert-run';
  export const revealAnswer = 'nbinline:reveal-answer';
  export const openKeys = 'nbinline:open-keys';
  export const openTools = 'nbinline:open-tools';
  export const stripAuthorship = 'nbinline:strip-authorship';
  export const openActivity = 'nbinline:open-activity';
  export const openStyles = 'nbinline:open-styles';
  export const attachImage = 'nbinline:attach-image';
  export const askAboutOutput = 'nbinline:ask-about-output';
}
