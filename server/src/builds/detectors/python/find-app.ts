import type { Framework } from './frameworks.ts'
import type { Module, PythonFunction } from './module.ts'
import { folderOf, type Modules } from './modules.ts'
import { createTracer, type Tracer } from './trace-framework.ts'

/** The application that a server is told to serve. */
export interface AppObject {
  readonly file: string
  /** The name of the application in that file, or of the function that makes it. */
  readonly name: string
  readonly isFactory: boolean
  readonly framework: Framework
}

/** The names that servers and tutorials give an application, the most usual first. */
const NAMES = ['app', 'application', 'server', 'api', 'asgi', 'wsgi']
const FACTORIES = ['create_app', 'make_app', 'get_app', 'build_app', 'create_application', 'get_application']

/** Finds the application in the files, which are in order of preference; one that is made already before one to be made. */
export function findApp(
  modules: Modules,
  files: readonly string[],
  packages: ReadonlySet<string>,
): AppObject | undefined {
  const tracer = createTracer(modules, packages)
  for (const find of [findNamed, findObject, findFactory]) {
    for (const file of files) {
      const found = find(modules, file, tracer)
      if (found !== undefined) return found
    }
  }
  return undefined
}

/** Finds the application that the file itself hands to a server: `uvicorn.run("shop.main:app")`. */
function findNamed(modules: Modules, file: string, { ofName, ofFactory }: Tracer): AppObject | undefined {
  const code = modules.at(file)?.code ?? ''
  const call = /\b(?:uvicorn\.run|web\.run_app)\(\s*(?:app\s*=\s*)?(?:["']([\w.]+):(\w+)["']|(\w+)\s*[,)])/.exec(code)
  if (call === null) return undefined
  const [, module, attribute, variable] = call
  const own = moduleNames(file)
  const target =
    module === undefined || own.includes(module)
      ? { file, name: variable ?? attribute ?? '' }
      : modules.locate(file, `${module}.${attribute}`)
  if (target === undefined) return undefined
  const isFactory = /\bfactory\s*=\s*True\b/.test(code) && module !== undefined
  const framework = isFactory ? ofFactory(target) : ofName(target)
  return framework === undefined ? undefined : { ...target, isFactory, framework }
}

const moduleNames = (file: string): readonly string[] => {
  const dotted = file.replace(/\.py$/, '').replaceAll('/', '.')
  return [dotted, dotted.slice(dotted.lastIndexOf('.') + 1)]
}

function findObject(modules: Modules, file: string, { ofName, ofUnusualName }: Tracer): AppObject | undefined {
  const module = modules.at(file)
  if (module === undefined) return undefined
  const others = [...module.calls.keys()].filter((name) => !NAMES.includes(name))
  for (const name of [...NAMES, ...others]) {
    const framework = NAMES.includes(name) ? ofName({ file, name }) : ofUnusualName({ file, name })
    if (framework !== undefined) return { file, name, isFactory: false, framework }
  }
  return undefined
}

function findFactory(modules: Modules, file: string, { ofFactory }: Tracer): AppObject | undefined {
  const module = modules.at(file)
  for (const name of FACTORIES) {
    const made = module?.functions.get(name)
    if (made === undefined || needsArguments(made)) continue
    const framework = ofFactory({ file, name })
    if (framework !== undefined) return { file, name, isFactory: true, framework }
  }
  return undefined
}

const needsArguments = ({ parameters }: PythonFunction): boolean =>
  parameters.some((parameter) => !parameter.includes('=') && !/^[*/]/.test(parameter))

/** True when importing the file would already serve, and so block a server that wants the application. */
export function servesOnImport(module: Module): boolean {
  return /^(?:\w+\.)*(?:run|run_app|run_server|serve|serve_forever|run_simple)[ \t]*\(/m.test(module.code)
}

/** True when the only such calls are those that Flask can be told to ignore. */
export function isIgnoredByFlask(module: Module, { name, framework }: AppObject): boolean {
  const calls = [
    ...module.code.matchAll(/^((?:\w+\.)*)(?:run|run_app|run_server|serve|serve_forever|run_simple)[ \t]*\(/gm),
  ]
  return framework.speaks === 'wsgi' && calls.every(([, on]) => on === `${name}.` || on === 'app.')
}

/** The modules of an app that may hold its application, in the order in which they are looked at. */
export function candidatesOf(paths: readonly string[]): { readonly usual: string[]; readonly others: string[] } {
  const top = ['app', 'main', 'wsgi', 'asgi', 'application', 'server', 'run', 'api', 'index', 'web']
  const inPackage = ['main', 'app', 'wsgi', 'asgi', 'server', 'application', 'api', 'web', '__init__']
  const known = new Set(paths)
  const folders = [...new Set(paths.map(folderOf))].filter((folder) => isPackageFolder(folder, known))
  const ordered = folders.sort((a, b) => rankOf(a) - rankOf(b) || (a < b ? -1 : 1))
  const usual = [
    ...top.map((name) => `${name}.py`),
    ...top.map((name) => `src/${name}.py`),
    ...ordered.flatMap((folder) => inPackage.map((name) => `${folder}${name}.py`)),
  ].filter((path) => known.has(path))
  const others = paths.filter((path) => !path.includes('/') && !usual.includes(path) && !UNRELATED.test(path))
  return { usual: [...new Set(usual)], others: others.sort() }
}

const UNRELATED = /^(?:setup|conftest|manage|tasks|noxfile|fabfile|gunicorn.*|test_.*|.*_test|tests)\.py$/
const FIRST = ['app/', 'src/app/', 'api/', 'backend/', 'server/', 'web/']

function rankOf(folder: string): number {
  const rank = FIRST.indexOf(folder)
  return rank === -1 ? FIRST.length : rank
}

const isPackageFolder = (folder: string, known: ReadonlySet<string>): boolean =>
  /^(?:src\/)?(?!src\/|examples?\/|scripts?\/|samples?\/|bin\/|tools?\/)[\w-]+\/$/.test(folder) ||
  (/^(?:src\/)?[\w-]+\/(?:api|app|web|server)\/$/.test(folder) && known.has(`${folder}__init__.py`))
