import { command } from './command.ts'
import { deno } from './deno.ts'
import type { Detector } from './detector.ts'
import { elixir } from './elixir.ts'
import { go } from './go.ts'
import { java } from './java.ts'
import { node } from './node/node.ts'
import { php } from './php.ts'
import { procfile } from './procfile.ts'
import { python } from './python/python.ts'
import { ruby } from './ruby.ts'
import { rust } from './rust.ts'
import { staticSite } from './static-site.ts'

/**
 * The first detector that knows a start is used. Apps in Ruby, PHP, Java and Elixir often have a package.json for their
 * pages; apps in Go and Rust are often tools beside a Node app.
 */
export const detectors: readonly Detector[] = [
  command,
  procfile,
  ruby,
  php,
  java,
  elixir,
  deno,
  node,
  python,
  go,
  rust,
  staticSite,
]
