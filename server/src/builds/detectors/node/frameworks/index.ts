import type { Framework, FrameworkApp } from './framework.ts'
import { serverFrameworks } from './servers.ts'
import { siteFrameworks } from './sites.ts'

/** All frameworks in the order in which they are looked for. */
export const frameworks: readonly Framework[] = [...serverFrameworks, ...siteFrameworks]

/** Returns the framework of an app; undefined where it has none that is known. */
export const frameworkOf = (app: FrameworkApp): Framework | undefined =>
  frameworks.find(({ packages }) => packages.some((name) => app.uses(name)))

/** True for a framework that makes nothing but files for browsers. */
export const isForBrowsers = (framework: Framework): boolean => siteFrameworks.includes(framework)
