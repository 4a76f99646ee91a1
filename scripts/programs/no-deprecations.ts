/** Replaces `depd` in the programs, which reads the stack of every module that may warn of deprecated uses. */
const deprecations = () =>
  Object.assign(() => undefined, { function: <Value>(value: Value) => value, property: () => undefined })

// `depd` is called as its module.
export { deprecations as 'module.exports' }
