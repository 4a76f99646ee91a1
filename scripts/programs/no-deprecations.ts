/** Stands in for `depd` in the programs: it looks at the stack of every module that may warn of a use that its next version ends. */
const deprecations = () =>
  Object.assign(() => undefined, { function: <Value>(value: Value) => value, property: () => undefined })

// `depd` is called as its module.
export { deprecations as 'module.exports' }
