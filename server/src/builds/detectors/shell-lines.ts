/** A program that a line finally runs, behind all wrappers and scripts. */
export interface Program {
  /** The name without folders and extensions, such as `vite`. */
  readonly name: string
  readonly args: readonly string[]
  readonly written: readonly string[]
  /** The line that names the program: the given line, or the line of a script. */
  readonly line: string
  /** The offset of its words in that line, without wrappers. */
  readonly from: number
  readonly to: number
  /** True when the calling lines run nothing else, so that `line` may replace them. */
  readonly isOnly: boolean
}

const mostSteps = 8
/** The most commands to read, because a few scripts can expand to a very long line. */
const mostCommands = 500

/**
 * Returns the programs of a shell line. Follows variables (`A=b vite`, `cross-env`), runners (`npx`, `poetry run`) and
 * scripts of the package.json (`npm run dev`).
 */
export function programsOf(line: string, scripts: ReadonlyMap<string, string>): readonly Program[] {
  return follow(line, scripts, { steps: mostSteps, left: { commands: mostCommands }, isOnly: true })
}

interface Way {
  readonly steps: number
  /** Shared by all lines. */
  readonly left: { commands: number }
  readonly isOnly: boolean
}

function follow(line: string, scripts: ReadonlyMap<string, string>, { steps, left, isOnly }: Way): Program[] {
  if (steps === 0) return []
  const found: Program[] = []
  // After a change of the folder, the scripts no longer apply.
  let known = scripts
  const commands = splitLine(line)
  for (const words of commands) {
    if (left.commands-- <= 0) break
    if (words[0]?.text === 'cd') known = new Map()
    const rest = withoutWrappers(words)
    const texts = rest.map(({ text }) => text)
    const inner = innerLines(texts, known)
    if (inner !== null) {
      const isAlone = isOnly && commands.length === 1 && inner.length === 1
      for (const each of inner) {
        found.push(...follow(each, known, { steps: steps - 1, left, isOnly: isAlone }))
      }
      continue
    }
    const program = isBinaryOf(texts) ? rest.slice(1) : rest
    const [first, ...args] = program.map(({ text }) => text)
    if (first === undefined) continue
    const [from, to] = [program[0]?.from ?? 0, program.at(-1)?.to ?? 0]
    const written = program.slice(1).map((word) => line.slice(word.from, word.to))
    found.push({ name: nameOf(first), args, written, line, from, to, isOnly })
  }
  return found
}

/** `yarn vite` and `pnpm vite` run a program of a package if no script has this name. */
const isBinaryOf = ([manager = '', verb = '']: readonly string[]): boolean =>
  (manager === 'yarn' || manager === 'pnpm') && /^[a-z][\w-]*$/.test(verb) && !ownVerbs.has(verb)

const ownVerbs = new Set([
  'run',
  'install',
  'add',
  'ci',
  'start',
  'test',
  'exec',
  'dlx',
  'node',
  'workspace',
  'workspaces',
])

const isVariable = (text: string): boolean => /^[A-Za-z_]\w*=/.test(text)
const isOption = (text: string): boolean => text.startsWith('-')

/** Programs that run their remaining words as a command, each with its options that take a value. */
const wrappers: Readonly<Record<string, readonly string[]>> = {
  'cross-env': [],
  'cross-env-shell': [],
  env: [],
  exec: [],
  time: [],
  nice: [],
  nohup: [],
  dotenv: ['-e', '-v', '-p', '--env-file'],
  'dotenv-cli': ['-e', '-v'],
  'env-cmd': ['-f', '-e', '-r'],
  npx: ['-p', '--package'],
  bunx: [],
  pnpx: [],
  doppler: [],
  infisical: [],
  dotenvx: ['-f'],
  uv: [],
  poetry: [],
  pipenv: [],
  pdm: [],
  rye: [],
  npm: [],
  pnpm: [],
  yarn: [],
  bun: [],
}

const seconds: Readonly<Record<string, readonly string[]>> = {
  doppler: ['run'],
  infisical: ['run'],
  dotenvx: ['run'],
  uv: ['run'],
  poetry: ['run'],
  pipenv: ['run'],
  pdm: ['run'],
  rye: ['run'],
  npm: ['exec', 'x'],
  pnpm: ['exec', 'dlx'],
  yarn: ['exec', 'dlx'],
  bun: ['x'],
}

function withoutWrappers(words: readonly Word[]): readonly Word[] {
  let rest = words
  for (;;) {
    const first = rest.findIndex(({ text }) => !isVariable(text))
    rest = first === -1 ? [] : rest.slice(first)
    const name = nameOf(rest[0]?.text ?? '')
    const own = Object.hasOwn(wrappers, name) ? wrappers[name] : undefined
    const after = Object.hasOwn(seconds, name) ? seconds[name] : undefined
    if (own !== undefined && (after === undefined || after.includes(rest[1]?.text ?? ''))) {
      rest = afterOptions(rest.slice(after === undefined ? 1 : 2), own)
      continue
    }
    const direct = withoutInterpreter(rest, name)
    if (direct === rest) return rest
    rest = direct
  }
}

/** Skips options and `--`. Options in `valued` take the next word. */
function afterOptions(words: readonly Word[], valued: readonly string[]): readonly Word[] {
  let at = 0
  while (isOption(words[at]?.text ?? '')) at += valued.includes(words[at]?.text ?? '') ? 2 : 1
  return words.slice(at)
}

/** `node node_modules/vite/bin/vite.js` and `python -m flask` run a program of a package. */
function withoutInterpreter(words: readonly Word[], name: string): readonly Word[] {
  if (/^python[\d.]*$/.test(name) && words[1]?.text === '-m') return words.slice(2)
  if (name !== 'node' || words.length < 2) return words
  const script = words.findIndex(({ text }, at) => at > 0 && !isOption(text))
  const inPackage = /(?:^|\/)node_modules\/(?:\.bin\/|(?:@[\w.-]+\/)?[\w.-]+\/)/.test(words[script]?.text ?? '')
  return inPackage ? words.slice(script) : words
}

const nameOf = (text: string): string => (text.split('/').at(-1) ?? '').replace(/\.(?:[cm]?js|cmd|exe)$/, '')

/** Returns the lines that a command runs; `null` for a command that is a program itself. */
function innerLines([first = '', ...args]: readonly string[], scripts: ReadonlyMap<string, string>): string[] | null {
  const name = nameOf(first)
  if ((name === 'sh' || name === 'bash') && /^-\w*c$/.test(args[0] ?? '')) return [args[1] ?? '']
  if (name === 'npm-run-all' || name === 'run-s' || name === 'run-p' || name === 'npm-run-all2') {
    return args.filter((word) => !isOption(word)).flatMap((word) => matching(word, scripts))
  }
  if (name === 'concurrently')
    return args.filter((word) => !isOption(word)).flatMap((word) => concurrent(word, scripts))
  const script = scriptOf(name, args)
  if (script === null) return null
  const line = scripts.get(script.name)
  if (line === undefined) return null
  const before = scripts.get(`pre${script.name}`)
  return [...(before === undefined ? [] : [before]), [line, ...script.args].join(' ')]
}

function matching(pattern: string, scripts: ReadonlyMap<string, string>): string[] {
  const [name = ''] = pattern.split(' ')
  return [...scripts].flatMap(([each, line]) =>
    each === name || (name.endsWith(':*') && each.startsWith(name.slice(0, -1))) ? [line] : [],
  )
}

function concurrent(word: string, scripts: ReadonlyMap<string, string>): string[] {
  const [, name] = /^(?:npm|yarn|pnpm|bun|node):(.+)$/.exec(word) ?? []
  return name === undefined ? [word] : matching(name.replace(/(?<!:)\*$/, ':*'), scripts)
}

function scriptOf(
  manager: string,
  words: readonly string[],
): { readonly name: string; readonly args: string[] } | null {
  if (manager === 'node') {
    const [, name] = /^--run=(.+)$/.exec(words[0] ?? '') ?? [null, words[0] === '--run' ? words[1] : undefined]
    return name === undefined ? null : { name, args: [] }
  }
  if (!['npm', 'pnpm', 'yarn', 'bun'].includes(manager)) return null
  // `--prefix web` and `-w web` select scripts of another folder.
  if (words.some((word) => /^(?:--prefix|-C|--cwd|--dir|-w|--workspace|--workspaces|--filter|-F|-r)\b/.test(word)))
    return null
  const [verb, ...rest] = words.filter((word) => word !== '--' && !/^(?:-s|--silent|--if-present|--bun)$/.test(word))
  if (verb === undefined) return null
  if (verb === 'run' || verb === 'run-script') {
    const [name, ...args] = rest
    return name === undefined ? null : { name, args }
  }
  const isShort =
    manager === 'npm' ? ['start', 'test', 'stop', 'restart'].includes(verb) : manager !== 'bun' || verb === 'start'
  return isShort ? { name: verb, args: rest } : null
}

interface Word {
  readonly text: string
  /** Offsets in the line, from the first character to after the last. */
  readonly from: number
  readonly to: number
}

const token =
  /\s+|(#[^\n]*)|(&&|\|\||[;|&()\n])|((?:\d*>>?|<)(?:&\d)?\s*\S*)|((?:[^\s"'\\;|&()<>]|\\[\s\S]|"(?:[^"\\]|\\[\s\S])*"|'[^']*')+)|[\s\S]/y

/**
 * Splits a shell line into its commands of one or more words. Never runs the line and expands nothing. Omits
 * redirections and comments.
 */
function splitLine(line: string): readonly (readonly Word[])[] {
  const commands: Word[][] = [[]]
  token.lastIndex = 0
  for (let match = token.exec(line); match !== null; match = token.exec(line)) {
    const [text, , operator, , word] = match
    if (operator !== undefined) commands.push([])
    else if (word !== undefined) {
      commands.at(-1)?.push({ text: unquote(word), from: match.index, to: match.index + text.length })
    }
    if (token.lastIndex >= line.length) break
  }
  return commands.filter((words) => words.length > 0)
}

const unquote = (word: string): string =>
  word.replace(/"((?:[^"\\]|\\[\s\S])*)"|'([^']*)'|\\([\s\S])/g, (_, double, single, escaped) =>
    String(double === undefined ? (single ?? escaped) : double.replace(/\\(["\\$`])/g, '$1')),
  )
