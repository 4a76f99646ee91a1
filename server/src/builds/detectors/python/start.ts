import type { Command } from '../../../platform/command.ts'
import type { SourceTree } from '../../source/tree.ts'
import { findDjango } from './django.ts'
import { type AppObject, candidatesOf, findApp, isIgnoredByFlask, servesOnImport } from './find-app.ts'
import { env } from './install.ts'
import { importNameOf, type Modules, modulesOf } from './modules.ts'
import { packagesOf } from './packages.ts'
import { type Serving, serve, serveStreamlit } from './servers.ts'

/** How an app in Python starts, and what that needs besides its packages. */
export interface PythonStart {
  /** Null when nothing says how it starts, which `advice` then explains. */
  readonly command: Command | null
  readonly advice?: string
  /** Words for pip. */
  readonly adds: readonly string[]
  readonly build: readonly Command[]
  readonly notes: readonly string[]
}

/** The files that run an app by convention, when no application is found that a server could serve. */
const PROGRAMS = ['main.py', 'app.py', 'server.py', 'run.py', 'application.py', '__main__.py']

const OVERRIDE = 'Another command goes into "start" of fairlead.json or a "web:" line of a Procfile.'

const nothing = { command: null, adds: [], build: [], notes: [] } as const

/** Decides how the app starts, from the text of its modules. Pure; never throws. */
export function planStart(app: SourceTree): PythonStart {
  const modules = modulesOf(app)
  const packages = packagesOf(app)
  const django = findDjango(modules, packages)
  if (django !== null) return startDjango(app, django, packages)
  const streamlit = packages.has('streamlit') ? findStreamlit(modules) : undefined
  if (streamlit !== undefined) return started(serveStreamlit(streamlit), `Streamlit runs ${streamlit}.`)

  const { usual, others } = candidatesOf(modules.paths)
  const program = PROGRAMS.find((path) => modules.paths.includes(path))
  // A program that reads PORT is a server of its own, unless it holds an application itself.
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

/** The same where the owner says how the app starts: what Django needs besides. */
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

/** Runs a file that serves by itself, unless what it would start is a development server. */
function runProgram(modules: Modules, file: string): PythonStart {
  const code = modules.at(file)?.code ?? ''
  const development = /\b(?:debug|reload|use_reloader|use_debugger)[ \t]*=[ \t]*True\b/.exec(code)
  if (development !== null && /\b(?:run|run_app|run_server|run_simple|serve)[ \t]*\(/.test(code)) {
    const advice = `${file} starts a development server (${development[0]}), which must not be public. Put its run() under if __name__ == "__main__":, or name a production server in a Procfile, such as "web: gunicorn ${file.replace(/\.py$/, '')}:app".`
    return { ...nothing, advice }
  }
  const notes = [`No application that a server could serve was found: python runs ${file}. ${OVERRIDE}`]
  // The environment's `python`: its folder is on the PATH.
  return { ...nothing, command: { argv: ['python', file], env }, notes }
}
