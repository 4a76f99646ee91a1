import { type Framework, frameworkByPackages, frameworkOf } from './frameworks.ts'
import { type Module, type PythonFunction, qualify } from './module.ts'
import type { Modules } from './modules.ts'

/** A name at the top level of a module. */
interface Place {
  readonly file: string
  readonly name: string
}

/** Tells which framework an application is made with, by following calls, names and imports to where it is made. */
export interface Tracer {
  /** The framework of the application that a name stands for. */
  ofName(place: Place): Framework | undefined
  /** The same for a name that applications seldom have: neither imports nor the packages tell anything about it. */
  ofUnusualName(place: Place): Framework | undefined
  /** The framework of the application that a function returns. */
  ofFactory(place: Place): Framework | undefined
}

/** Imports are followed this far. */
const farthest = 6

/** @param packages the names of the packages that the app asks for, which tell of a framework that the code hides */
export function createTracer(modules: Modules, packages: ReadonlySet<string>): Tracer {
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

  /** Tells the framework of what a function returns, by the calls in it; a function that hides it by the packages. */
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

/** An application can be a plain function, by PEP 3333 or the specification of ASGI. */
function ofCallable({ isAsync, parameters }: PythonFunction): Framework | undefined {
  if (isAsync && parameters.length === 3) return { name: 'ASGI', speaks: 'asgi' }
  const [, second = ''] = parameters
  if (!isAsync && parameters.length === 2 && /^start_response\b|^start\b/.test(second)) {
    return { name: 'WSGI', speaks: 'wsgi' }
  }
  return undefined
}
