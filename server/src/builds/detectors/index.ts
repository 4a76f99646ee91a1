import { command } from './command.ts'
import type { Detector } from './detector.ts'
import { node } from './node.ts'
import { procfile } from './procfile.ts'
import { python } from './python.ts'
import { staticSite } from './static-site.ts'

/** All detectors in the order in which they are asked; the first that says how the app starts is used. */
export const detectors: readonly Detector[] = [command, procfile, node, python, staticSite]
