import { stripVTControlCharacters } from 'node:util'

/** Reasons that programs give when they end at their start, and the next step for each; the first that fits counts. */
const reasons: readonly (readonly [pattern: RegExp, advice: (match: readonly string[]) => string])[] = [
  [
    /Cannot find (?:module|package) '((?:@[\w.-]+\/)?[a-z0-9][\w.-]*)[^']{0,200}'/i,
    ([, name]) =>
      `The package ${name} was not installed: add it to "dependencies" in package.json. Those in "devDependencies" are left out where nothing builds.`,
  ],
  [
    /Cannot find module '[./][^']{0,400}'/,
    () =>
      'A file that the app loads is not there: see that it is in the repository, with the same upper and lower case, or that the build makes it.',
  ],
  [
    /ModuleNotFoundError: No module named '([\w-]+)/,
    ([, name]) =>
      `Python has no module ${name}: add the package that holds it to requirements.txt or pyproject.toml, or see that the file is in the repository.`,
  ],
  [
    /cannot load such file -- ([\w./-]+)/,
    ([, name]) =>
      `Ruby cannot load ${name}: add the gem that holds it to the Gemfile, or see that the file is in the repository.`,
  ],
  [
    /^(?:\/bin\/)?sh: (?:\d+: )?(?:exec: )?([\w@./-]+): (?:command )?not found$/m,
    ([, name]) =>
      `There is no program ${name}: add the package that brings it to the app's packages, or start another program.`,
  ],
  [
    /Cannot use import statement outside a module|require is not defined in ES module scope/,
    () =>
      'The file is written for the other kind of modules: set "type" in package.json to "module" for import, or to "commonjs" for require.',
  ],
  [
    /^KeyError: '([A-Z][A-Z0-9_]{2,})'|key not found: "([A-Z][A-Z0-9_]{2,})"|\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b[^\n]{0,40}\b(?:not set|unset|not defined|undefined|missing|required|must be set)\b/m,
    (match) =>
      `The app asks for the variable ${match.slice(1).find((name) => name !== undefined)}: set it with fairlead env, in the dashboard or in env_vars, and deploy again.`,
  ],
  [
    /ECONNREFUSED (?:127\.0\.0\.1|::1|localhost):(\d+)|connection to server at "(?:localhost|127\.0\.0\.1)[^\n]{0,40}port (\d+) failed/,
    (match) =>
      `Nothing listens on port ${match[1] ?? match[2]} of the app's own machine: create the service, such as a database of the project, and set its address in the app's variables.`,
  ],
  [
    /EADDRINUSE|Address already in use/i,
    () => 'The port was already taken by another part of the app: let one process listen on the port in PORT.',
  ],
]

/** Returns the next step for an app whose last lines tell why it ended before it answered; else undefined. */
export function startAdvice(lines: readonly string[]): string | undefined {
  const text = stripVTControlCharacters(lines.join('\n'))
  for (const [pattern, advice] of reasons) {
    const match = pattern.exec(text)
    if (match !== null) return advice(match)
  }
  return undefined
}
