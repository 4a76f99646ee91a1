/** Says in a log how many builds are ahead of one that waits, never whose. The action shows the line outside the log. */
export const waitingLine = (before: number): string =>
  `Waiting for a build slot: ${before === 1 ? '1 build is' : `${before} builds are`} ahead.`
