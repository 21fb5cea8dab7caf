/** Ids of our commands. All but the first and last take `{cellId?: string}`. */
export namespace CommandIDs {
  export const insertPrompt = 'nbinline:insert-prompt';
  export const run = 'nbinline:run';
  export const stop = 'nbinline:stop';
  export const continueAnswer = 'nbinline:continue';
  export const runAgain = 'nbinline:run-again';
  export const revertRun = 'nbinline:revert-run';
  export const revealAnswer = 'nbinline:reveal-answer';
  export const openKeys = 'nbinline:open-keys';
}
