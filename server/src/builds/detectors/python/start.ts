import type { Command } from '../../../platform/command.ts'
import type { SourceTree } from '../../tree.ts'
import {
  type AppObject,
  candidatesOf,
  type Framework,
  findApp,
  isIgnoredByFlask,
  servesOnImport,
} from './application.ts'
import { importNameOf, type Modules, modulesOf } from './modules.ts'
import { env, packagesOf } from './packages.ts'

/** How a Python app starts, and what the start needs besides the packages of the app. */
export interface PythonStart {
  /** Null when no start is known; `advice` then explains what to do. */
  readonly command: Command | null
  readonly advice?: string
  readonly adds: readonly string[]
  readonly build: readonly Command[]
  readonly notes: readonly string[]
}

/** Conventional start files, for apps without an application object that a server could serve. */
const PROGRAMS = ['main.py', 'app.py', 'server.py', 'run.py', 'application.py', '__main__.py']

const OVERRIDE = 'Another command goes into "start" of fairlead.json or a "web:" line of a Procfile.'

const nothing = { command: null, adds: [], build: [], notes: [] } as const

/** Decides how the app starts from the text of its modules. It is pure and never throws. */
export function planStart(app: SourceTree): PythonStart {
  const modules = modulesOf(app)
  const packages = packagesOf(app)
  const django = findDjango(modules, packages)
  if (django !== null) return startDjango(app, django, packages)
  const streamlit = packages.has('streamlit') ? findStreamlit(modules) : undefined
  if (streamlit !== undefined) return started(serveStreamlit(streamlit), `Streamlit runs ${streamlit}.`)

  const { usual, others } = candidatesOf(modules.paths)
  const program = PROGRAMS.find((path) => modules.paths.includes(path))
  // A program that reads PORT is a server, unless it contains an application object.
  const isOwnServer = program !== undefined && /["']PORT["']/.test(modules.at(program)?.code ?? '')
  const near = isOwnServer ? usual.filter((path) => !path.includes('/')) : usual
  const found = flaskApp(app, modules, packages) ?? findApp(modules, near, packages)
  if (found !== undefined) return startFound(app, modules, found, packages)
  const more = others.flatMap((path) => findApp(modules, [path], new Set()) ?? [])
  const [only] = more
  if (only !== undefined && more.length === 1 && program === undefined) return startFound(app, modules, only, packages)
  if (program !== undefined) return runProgram(modules, program)
  if (more.length > 1) return { ...nothing, advice: severalAdvice(more) }
  return { ...nothing, advice: ADVICE }
}

/** Plans an app whose owner defines the start: only what Django needs in addition. */
export function planOwners(app: SourceTree): PythonStart {
  const django = findDjango(modulesOf(app), packagesOf(app))
  if (django === null) return nothing
  const migrates = app.has('Procfile') && /\bmigrate\b/.test(app.read('Procfile') ?? '')
  return { ...nothing, build: django.build, notes: migrates ? django.notes.slice(1) : django.notes }
}

const ADVICE =
  'Nothing says how the app starts: no file holds an application such as "app = Flask(__name__)" or "app = FastAPI()", and there is no main.py. Add a Procfile with a "web:" line, such as "web: gunicorn shop.wsgi".'

const severalAdvice = (found: readonly AppObject[]): string =>
  `Several files hold an application (${found
    .slice(0, 10)
    .map(({ file }) => file)
    .join(
      ', ',
    )}): say which in a Procfile, such as "web: gunicorn ${found[0]?.file.replace(/\.py$/, '')}:${found[0]?.name}".`

/** `.flaskenv` names the application for the `flask` command. */
function flaskApp(app: SourceTree, modules: Modules, packages: ReadonlySet<string>): AppObject | undefined {
  const text = app.has('.flaskenv') ? (app.read('.flaskenv') ?? '') : ''
  const [, named] = /^[ \t]*(?:export[ \t]+)?FLASK_APP[ \t]*=[ \t]*["']?([\w./-]+)/m.exec(text) ?? []
  if (named === undefined) return undefined
  const path = named.replace(/\.py$/, '').replaceAll('.', '/').replace(/^\/+/, '')
  return findApp(modules, [`${path}.py`, `${path}/__init__.py`], packages)
}

function startDjango(
  app: SourceTree,
  django: NonNullable<ReturnType<typeof findDjango>>,
  packages: ReadonlySet<string>,
): PythonStart {
  if (django.served === null) {
    const advice =
      'The Django project names no WSGI_APPLICATION and has no wsgi.py: add one, or a Procfile with a "web:" line.'
    return { ...nothing, advice }
  }
  const serving = serve(django.served, packages, app.has('gunicorn.conf.py'))
  const { notes, ...plan } = started(serving, `${serving.server} serves the Django project (${serving.shown}).`)
  return { ...plan, build: django.build, notes: [...notes, ...django.notes] }
}

function findStreamlit(modules: Modules): string | undefined {
  const usual = [
    'streamlit_app.py',
    'app.py',
    'main.py',
    'Home.py',
    'src/streamlit_app.py',
    'src/app.py',
    'src/main.py',
  ]
  const top = modules.paths.filter((path) => !path.includes('/')).sort()
  return [...usual, ...top].find((path) => {
    const imports = modules.at(path)?.imports.values() ?? []
    return [...imports].some((name) => name === 'streamlit' || name.startsWith('streamlit.'))
  })
}

function startFound(app: SourceTree, modules: Modules, found: AppObject, packages: ReadonlySet<string>): PythonStart {
  const module = modules.at(found.file)
  if (module !== undefined && servesOnImport(module) && !isIgnoredByFlask(module, found)) {
    return runProgram(modules, found.file)
  }
  const { framework, name, isFactory, file } = found
  const imported = importNameOf(modules, file)
  const serving = serve({ ...imported, name, isFactory, framework }, packages, app.has('gunicorn.conf.py'))
  const what = isFactory ? `the application that ${name}() makes` : `"${name}"`
  return started(serving, `${serving.server} serves ${what} of ${file} (${framework.name}): ${serving.shown}.`)
}

function started(serving: Serving, note: string): PythonStart {
  const [first] = serving.adds
  const added =
    first === undefined
      ? []
      : [
          `${serving.server} is not among the app's packages: ${first.split(';')[0]} is installed beside them. List it to choose the version.`,
        ]
  return { command: serving.start, adds: serving.adds, build: [], notes: [`${note} ${OVERRIDE}`, ...added] }
}

/** Runs a file that serves requests, unless it would start a development server. */
function runProgram(modules: Modules, file: string): PythonStart {
  const code = modules.at(file)?.code ?? ''
  const development = /\b(?:debug|reload|use_reloader|use_debugger)[ \t]*=[ \t]*True\b/.exec(code)
  if (development !== null && /\b(?:run|run_app|run_server|run_simple|serve)[ \t]*\(/.test(code)) {
    const advice = `${file} starts a development server (${development[0]}), which must not be public. Put its run() under if __name__ == "__main__":, or name a production server in a Procfile, such as "web: gunicorn ${file.replace(/\.py$/, '')}:app".`
    return { ...nothing, advice }
  }
  const notes = [`No application that a server could serve was found: python runs ${file}. ${OVERRIDE}`]
  // The environment's `python`, whose folder is on the PATH.
  return { ...nothing, command: { argv: ['python', file], env }, notes }
}

export interface Django {
  /** The folder of `manage.py`, relative to the app's folder; empty for the app's folder. */
  readonly folder: string
  /** The application that serves the project; null when the settings name no WSGI or ASGI module. */
  readonly served: Served | null
  readonly build: readonly Command[]
  readonly notes: readonly string[]
}

/** Finds the Django project by its `manage.py`, at the top or one folder below. */
function findDjango(modules: Modules, packages: ReadonlySet<string>): Django | null {
  const managers = modules.paths.filter((path) => /^(?:[\w-]+\/)?manage\.py$/.test(path)).sort(byDepth)
  for (const manager of managers) {
    const folder = manager.slice(0, -'manage.py'.length)
    const code = modules.at(manager)?.code ?? ''
    const [, settings] = /DJANGO_SETTINGS_MODULE["']\s*,\s*["']([A-Za-z_][\w.]*)["']/.exec(code) ?? []
    if (settings !== undefined) return project(modules, packages, folder, settings)
  }
  return null
}

function project(modules: Modules, packages: ReadonlySet<string>, folder: string, settings: string): Django {
  const code = settingsCode(modules, folder, settings)
  const [top = ''] = settings.split('.')
  const exists = (module: string) => modules.paths.includes(`${folder}${module.replaceAll('.', '/')}.py`)
  const named = (name: string) => {
    const [, module, attribute = ''] =
      new RegExp(`^${name}[ \\t]*=[ \\t]*["']([\\w.]+)\\.(\\w+)["']`, 'm').exec(code) ?? []
    return module === undefined ? undefined : { module, name: attribute }
  }
  const usual = (kind: string) =>
    exists(`${top}.${kind}`) ? { module: `${top}.${kind}`, name: 'application' } : undefined
  const isAsync = ['channels', 'daphne'].some(
    (name) => packages.has(name) || code.includes(`"${name}"`) || code.includes(`'${name}'`),
  )
  const asgi = named('ASGI_APPLICATION') ?? usual('asgi')
  const wsgi = named('WSGI_APPLICATION') ?? usual('wsgi')
  const speaks = (isAsync && asgi !== undefined) || wsgi === undefined ? 'asgi' : 'wsgi'
  const target = speaks === 'asgi' ? asgi : wsgi
  return {
    folder,
    served:
      target === undefined
        ? null
        : { ...target, folder: folder.slice(0, -1), isFactory: false, framework: { name: 'Django', speaks } },
    build: /^[ \t]*STATIC_ROOT[ \t]*=/m.test(code) ? [manage(folder, 'collectstatic', '--noinput')] : [],
    notes: notesOf({ code, folder, settings, packages }),
  }
}

const manage = (folder: string, ...words: string[]): Command => ({
  argv: ['python', `${folder}manage.py`, ...words],
  env,
})

/** Returns the code of the settings and of all modules in their package, because these modules import each other. */
function settingsCode(modules: Modules, folder: string, settings: string): string {
  const path = `${folder}${settings.replaceAll('.', '/')}`
  const parent = path.slice(0, path.lastIndexOf('/'))
  const isSplit = parent.endsWith('/settings') || modules.paths.includes(`${path}/__init__.py`)
  const around = isSplit ? (parent.endsWith('/settings') ? parent : path) : undefined
  const files = modules.paths.filter(
    (file) => file === `${path}.py` || (around !== undefined && file.startsWith(`${around}/`)),
  )
  return files.map((file) => modules.at(file)?.code ?? '').join('\n')
}

function notesOf(facts: {
  readonly code: string
  readonly folder: string
  readonly settings: string
  readonly packages: ReadonlySet<string>
}): string[] {
  const { code, folder, settings, packages } = facts
  const notes = [
    `Migrations of the database are not run by themselves: add "release: python ${folder}manage.py migrate" to a Procfile, beside a "web:" line.`,
  ]
  if (/^[ \t]*STATIC_ROOT[ \t]*=/m.test(code)) {
    notes.push('STATIC_ROOT is set, so that the build collects the static files ("manage.py collectstatic").')
    if (!packages.has('whitenoise') && !packages.has('dj-static')) {
      notes.push('warning: Django serves no static files in production: add WhiteNoise, or keep them elsewhere.')
    }
  }
  if (/^DEBUG[ \t]*=[ \t]*True\b/m.test(code)) {
    notes.push(
      `warning: DEBUG is True in ${settings}: pages of errors show code and settings to every visitor. Set it to False.`,
    )
  }
  if (/^ALLOWED_HOSTS[ \t]*=[ \t]*\[\s*\]/m.test(code)) {
    notes.push(
      `warning: ALLOWED_HOSTS is empty in ${settings}: Django answers 400 to every name but localhost. Add the app's.`,
    )
  }
  return notes
}

const byDepth = (a: string, b: string): number => a.split('/').length - b.split('/').length || (a < b ? -1 : 1)

/** A package that serves applications in production, with the version for repositories without the package. */
interface ServerPackage {
  readonly name: string
  /**
   * Requirements for pip: the newest release for maintained Pythons, and the last supported release for older Pythons.
   */
  readonly pinned: readonly string[]
}

const gunicorn: ServerPackage = {
  name: 'gunicorn',
  pinned: ["gunicorn==26.2.0; python_version >= '3.10'", "gunicorn==23.0.0; python_version < '3.10'"],
}
const uvicorn: ServerPackage = {
  name: 'uvicorn',
  pinned: ["uvicorn==0.54.0; python_version >= '3.10'", "uvicorn==0.33.0; python_version < '3.10'"],
}

interface Served {
  /** The module, such as `shop.main`. */
  readonly module: string
  /** The folder that must be on the module path; empty for the app's folder. */
  readonly folder: string
  readonly name: string
  readonly isFactory: boolean
  readonly framework: Framework
}

interface Serving {
  readonly start: Command
  /** The short command for people: `gunicorn app:app`. */
  readonly shown: string
  /** Requirements for pip: the server, unless the repository requires it. */
  readonly adds: readonly string[]
  readonly server: string
}

/** Packages and extras that include each server. */
const BRINGS: Readonly<Record<string, readonly string[]>> = {
  uvicorn: ['uvicorn', 'fastapi[standard]', 'fastapi[all]', 'fastapi-cli', 'litestar[standard]', 'python-fasthtml'],
  gunicorn: ['gunicorn'],
}

/**
 * @param packages what the repository requires, with extras: `fastapi`, `fastapi[standard]`
 * @param hasSettings true when there is a `gunicorn.conf.py`
 */
function serve(app: Served, packages: ReadonlySet<string>, hasSettings: boolean): Serving {
  const { speaks, name } = app.framework
  const target = `${app.module}:${app.name}`
  if (speaks === 'sanic') {
    const argv = ['sanic', ...(app.isFactory ? ['--factory'] : []), target, '--single-process'] as const
    return { ...withAddress(argv, '--host 127.0.0.1 --port "$PORT"', app.folder), adds: [], server: 'sanic' }
  }
  if (speaks === 'asgi') {
    if (name === 'Django' && packages.has('daphne')) {
      return { ...withAddress(['daphne', target], '-b 127.0.0.1 -p "$PORT"', app.folder), adds: [], server: 'daphne' }
    }
    const factory = app.isFactory ? ['--factory'] : []
    const folder = app.folder === '' ? [] : ['--app-dir', app.folder]
    const argv = ['uvicorn', ...factory, ...folder, target] as const
    return {
      ...withAddress(argv, '--host 127.0.0.1 --port "$PORT"'),
      adds: missing(uvicorn, packages),
      server: 'uvicorn',
    }
  }
  // Threads let one process answer several requests; more processes would not fit a small plan (WEB_CONCURRENCY adds
  // them).
  const usual = hasSettings ? [] : ['--threads', '8']
  const workers = speaks === 'aiohttp' ? ['--worker-class', 'aiohttp.GunicornWebWorker'] : usual
  const folder = app.folder === '' ? [] : ['--pythonpath', app.folder]
  // An aiohttp worker calls the factory itself.
  const call = app.isFactory && speaks !== 'aiohttp' ? '()' : ''
  const argv = ['gunicorn', ...workers, ...folder, `${target}${call}`] as const
  return { ...withAddress(argv, '--bind "127.0.0.1:$PORT"'), adds: missing(gunicorn, packages), server: 'gunicorn' }
}

function serveStreamlit(file: string): Serving {
  const argv = ['streamlit', 'run', file, '--server.headless', 'true', '--browser.gatherUsageStats', 'false'] as const
  return { ...withAddress(argv, '--server.address 127.0.0.1 --server.port "$PORT"'), adds: [], server: 'streamlit' }
}

function missing({ name, pinned }: ServerPackage, packages: ReadonlySet<string>): readonly string[] {
  return (BRINGS[name] ?? []).some((each) => packages.has(each)) ? [] : pinned
}

/** Constants, because a shell expands PORT in them. */
type Address =
  | '--bind "127.0.0.1:$PORT"'
  | '--host 127.0.0.1 --port "$PORT"'
  | '-b 127.0.0.1 -p "$PORT"'
  | '--server.address 127.0.0.1 --server.port "$PORT"'

/** The shell line is a constant; the words of the app are its arguments. */
function withAddress(
  argv: readonly [string, ...string[]],
  address: Address,
  folder = '',
): { readonly start: Command; readonly shown: string } {
  const env = {
    PYTHONUNBUFFERED: '1',
    // Only the gateway reaches the app, and it sets the forwarding headers.
    FORWARDED_ALLOW_IPS: '*',
    // Flask then ignores app.run() in the module, which would start the development server.
    FLASK_RUN_FROM_CLI: 'true',
    ...(folder === '' ? {} : { PYTHONPATH: folder }),
  }
  return { start: { argv: ['/bin/sh', '-c', `exec "$@" ${address}`, 'sh', ...argv], env }, shown: argv.join(' ') }
}
