import { folderOf, type Module, type Modules, type PythonFunction, qualify } from './modules.ts'

/** An object or factory that a server can serve. */
export interface AppObject {
  readonly file: string
  /** The application in the file, or the function that creates it. */
  readonly name: string
  readonly isFactory: boolean
  readonly framework: Framework
}

/** The usual names of an application in servers and tutorials, the most common first. */
const NAMES = ['app', 'application', 'server', 'api', 'asgi', 'wsgi']
const FACTORIES = ['create_app', 'make_app', 'get_app', 'build_app', 'create_application', 'get_application']

/** Finds the application in the files, in their order. An application object takes precedence over a factory. */
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

/** Finds the application that the file itself passes to a server: `uvicorn.run("shop.main:app")`. */
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

/**
 * True when the import of the file already starts a server, which would block the server that imports the application.
 */
export function servesOnImport(module: Module): boolean {
  return /^(?:\w+\.)*(?:run|run_app|run_server|serve|serve_forever|run_simple)[ \t]*\(/m.test(module.code)
}

/** True when Flask can ignore all calls in the module that would start a server. */
export function isIgnoredByFlask(module: Module, { name, framework }: AppObject): boolean {
  const calls = [
    ...module.code.matchAll(/^((?:\w+\.)*)(?:run|run_app|run_server|serve|serve_forever|run_simple)[ \t]*\(/gm),
  ]
  return framework.speaks === 'wsgi' && calls.every(([, on]) => on === `${name}.` || on === 'app.')
}

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

interface Place {
  readonly file: string
  readonly name: string
}

/** Follows calls, names and imports to the creation of an application. */
interface Tracer {
  ofName(place: Place): Framework | undefined
  /** Like `ofName`, for a name that is unusual for applications: imports and packages do not count as evidence. */
  ofUnusualName(place: Place): Framework | undefined
  ofFactory(place: Place): Framework | undefined
}

const farthest = 6

/** @param packages what the app requires, as evidence when the code hides the framework */
function createTracer(modules: Modules, packages: ReadonlySet<string>): Tracer {
  return {
    ofName: (place) => trace(modules, packages).ofName(place, 0),
    ofUnusualName: (place) => trace(modules, new Set()).ofName(place, farthest),
    ofFactory: (place) => trace(modules, packages).ofFactory(place, 0),
  }
}

function trace(modules: Modules, packages: ReadonlySet<string>) {
  function ofName({ file, name }: Place, depth: number): Framework | undefined {
    const module = modules.at(file)
    if (module === undefined || depth > farthest) return undefined
    for (const callee of module.calls.get(name) ?? []) {
      const framework = ofCall({ file, name: callee }, module, depth)
      if (framework !== undefined) return framework
    }
    const alias = module.aliases.get(name)
    if (alias !== undefined && alias !== name) return ofAlias({ file, name: alias }, module, depth)
    const callable = module.functions.get(name)
    if (callable !== undefined) return ofCallable(callable)
    const target = imported({ file, name }, module)
    return target === undefined ? undefined : ofName(target, depth + 1)
  }

  /** Dash and others keep the Flask application in an attribute: `server = app.server`. */
  function ofAlias({ file, name: alias }: Place, module: Module, depth: number): Framework | undefined {
    const [name = '', attribute] = alias.split('.')
    if (attribute === undefined) return ofName({ file, name }, depth + 1)
    const makers = (module.calls.get(name) ?? []).flatMap((callee) => qualify(module, callee))
    const isDash = makers.some((maker) => maker === 'dash.Dash' || maker === 'dash.dash.Dash')
    return isDash && attribute === 'server' ? { name: 'Dash', speaks: 'wsgi' } : undefined
  }

  function ofCall({ file, name: callee }: Place, module: Module, depth: number): Framework | undefined {
    if (module.functions.has(callee)) return ofFactory({ file, name: callee }, depth + 1)
    for (const qualified of qualify(module, callee)) {
      const known = frameworkOf(qualified)
      if (known !== undefined) return known
      const target = modules.locate(file, qualified)
      if (target !== undefined) return ofFactory(target, depth + 1)
    }
    return undefined
  }

  /** Finds the framework of a function's result by the calls in the function; without evidence, by the packages. */
  function ofFactory({ file, name }: Place, depth: number): Framework | undefined {
    const module = modules.at(file)
    if (module === undefined || depth > farthest) return undefined
    const made = module.functions.get(name)
    if (made === undefined) {
      const target = imported({ file, name }, module)
      return target === undefined ? undefined : ofFactory(target, depth + 1)
    }
    const callees = [...made.body.matchAll(/(?<![\w.])([A-Za-z_][\w.]*)[ \t]*\(/g)].map(([, callee = '']) => callee)
    const direct = callees.flatMap((callee) => qualify(module, callee)).map(frameworkOf)
    return direct.find((framework) => framework !== undefined) ?? frameworkByPackages(packages)
  }

  function imported({ file, name }: Place, module: Module): Place | undefined {
    const qualified = module.imports.get(name)
    return qualified === undefined ? undefined : modules.locate(file, qualified)
  }

  return { ofName, ofFactory }
}

/** A plain function can be an application by PEP 3333 or the ASGI specification. */
function ofCallable({ isAsync, parameters }: PythonFunction): Framework | undefined {
  if (isAsync && parameters.length === 3) return { name: 'ASGI', speaks: 'asgi' }
  const [, second = ''] = parameters
  if (!isAsync && parameters.length === 2 && /^start_response\b|^start\b/.test(second)) {
    return { name: 'WSGI', speaks: 'wsgi' }
  }
  return undefined
}

export type Interface = 'wsgi' | 'asgi' | 'aiohttp' | 'sanic' | 'streamlit'

export interface Framework {
  /** The name for people, such as `FastAPI`. */
  readonly name: string
  readonly speaks: Interface
}

const frameworks: Readonly<Record<string, Framework>> = {
  'flask.Flask': { name: 'Flask', speaks: 'wsgi' },
  'flask.app.Flask': { name: 'Flask', speaks: 'wsgi' },
  'apiflask.APIFlask': { name: 'APIFlask', speaks: 'wsgi' },
  'flask_openapi3.OpenAPI': { name: 'Flask', speaks: 'wsgi' },
  'connexion.FlaskApp': { name: 'Connexion', speaks: 'asgi' },
  'connexion.AsyncApp': { name: 'Connexion', speaks: 'asgi' },
  'bottle.Bottle': { name: 'Bottle', speaks: 'wsgi' },
  'bottle.default_app': { name: 'Bottle', speaks: 'wsgi' },
  'bottle.app': { name: 'Bottle', speaks: 'wsgi' },
  'falcon.App': { name: 'Falcon', speaks: 'wsgi' },
  'falcon.API': { name: 'Falcon', speaks: 'wsgi' },
  'falcon.asgi.App': { name: 'Falcon', speaks: 'asgi' },
  'fastapi.FastAPI': { name: 'FastAPI', speaks: 'asgi' },
  'fastapi.applications.FastAPI': { name: 'FastAPI', speaks: 'asgi' },
  'starlette.applications.Starlette': { name: 'Starlette', speaks: 'asgi' },
  'litestar.Litestar': { name: 'Litestar', speaks: 'asgi' },
  'litestar.app.Litestar': { name: 'Litestar', speaks: 'asgi' },
  'starlite.Starlite': { name: 'Starlite', speaks: 'asgi' },
  'quart.Quart': { name: 'Quart', speaks: 'asgi' },
  'blacksheep.Application': { name: 'BlackSheep', speaks: 'asgi' },
  'fasthtml.common.FastHTML': { name: 'FastHTML', speaks: 'asgi' },
  'fasthtml.FastHTML': { name: 'FastHTML', speaks: 'asgi' },
  'socketio.ASGIApp': { name: 'Socket.IO', speaks: 'asgi' },
  'socketio.WSGIApp': { name: 'Socket.IO', speaks: 'wsgi' },
  'ariadne.asgi.GraphQL': { name: 'Ariadne', speaks: 'asgi' },
  'strawberry.asgi.GraphQL': { name: 'Strawberry', speaks: 'asgi' },
  'django.core.wsgi.get_wsgi_application': { name: 'Django', speaks: 'wsgi' },
  'django.core.asgi.get_asgi_application': { name: 'Django', speaks: 'asgi' },
  'aiohttp.web.Application': { name: 'aiohttp', speaks: 'aiohttp' },
  'sanic.Sanic': { name: 'Sanic', speaks: 'sanic' },
}

/** Returns the framework whose application a call of this name creates, such as `flask.Flask`. */
const frameworkOf = (qualified: string): Framework | undefined =>
  Object.hasOwn(frameworks, qualified) ? frameworks[qualified] : undefined

/** Guesses the framework from the installed packages, for an application whose creation is not visible. */
function frameworkByPackages(packages: ReadonlySet<string>): Framework | undefined {
  const guesses: readonly (readonly [string, Framework])[] = [
    ['fastapi', { name: 'FastAPI', speaks: 'asgi' }],
    ['litestar', { name: 'Litestar', speaks: 'asgi' }],
    ['quart', { name: 'Quart', speaks: 'asgi' }],
    ['flask', { name: 'Flask', speaks: 'wsgi' }],
    ['bottle', { name: 'Bottle', speaks: 'wsgi' }],
    ['starlette', { name: 'Starlette', speaks: 'asgi' }],
  ]
  const found = guesses.filter(([name]) => packages.has(name))
  const interfaces = new Set(found.map(([, { speaks }]) => speaks))
  return interfaces.size === 1 ? found[0]?.[1] : undefined
}
