import type { Command } from '../../../platform/command.ts'
import type { PackageJson } from '../../source/package-json.ts'
import { type Program, programsOf } from '../lines/programs.ts'

/** Programs whose packages have other names. */
const packageOf: Readonly<Record<string, string>> = {
  tsc: 'typescript',
  ng: '@angular/cli',
  nest: '@nestjs/cli',
  'vue-cli-service': '@vue/cli-service',
  eleventy: '@11ty/eleventy',
  babel: '@babel/cli',
  'babel-node': '@babel/node',
  swc: '@swc/cli',
  strapi: '@strapi/strapi',
  prisma: 'prisma',
}

/** True when the app has the package that a program belongs to. */
export function bringsProgram(name: string, uses: (name: string) => boolean): boolean {
  return uses(name) || (Object.hasOwn(packageOf, name) && uses(packageOf[name] ?? ''))
}

/** True when the start uses a package that is listed for development alone, as `ts-node` and `tsc` often are. */
export function needsDevelopmentPackages(app: PackageJson, start: Command | null): boolean {
  const words = start?.argv ?? []
  return usesDevelopmentPackages(app, words[0] === '/bin/sh' ? (words[2] ?? '') : words.join(' '))
}

function usesDevelopmentPackages({ scripts, dependencies, devDependencies }: PackageJson, line: string): boolean {
  return programsOf(line, scripts)
    .flatMap(packagesOf)
    .some((name) => devDependencies.has(name) && !dependencies.has(name))
}

/** The scripts that package managers run when they install, without being asked. */
const lifecycle = [
  'preinstall',
  'install',
  'postinstall',
  'prepublish',
  'preprepare',
  'prepare',
  'postprepare',
] as const

/** True when a script that an installation runs uses a package that is listed for development alone, such as `husky`. */
export const installsWithDevelopmentPackages = (app: PackageJson): boolean =>
  lifecycle.some((name) => usesDevelopmentPackages(app, app.scripts.get(name) ?? ''))

/** Returns the packages that a program may belong to or loads, such as `tsx` in `node --import tsx`. */
function packagesOf({ name, args }: Program): readonly string[] {
  const own = Object.hasOwn(packageOf, name) ? packageOf[name] : undefined
  const loaded = args.map(
    (arg) => /^(?:@[\w.-]+\/)?[\w.-]+/.exec(arg.replace(/^--(?:import|require|loader)=/, ''))?.[0],
  )
  return [name, own, ...loaded].filter((each) => each !== undefined)
}
