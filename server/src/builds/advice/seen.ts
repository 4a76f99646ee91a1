/** Files that tell what a repository is, by a pattern of their names, with what is said of them. */
const telling: readonly (readonly [pattern: RegExp, what: string])[] = [
  [/^(docker-)?compose(\..+)?\.ya?ml$/, '"fairlead import compose" reads it'],
  [/^go\.(mod|work)$/, 'Go'],
  [/^(Gemfile|config\.ru)$/, 'Ruby'],
  [/^composer\.json$/, 'PHP'],
  [/^Cargo\.toml$/, 'Rust'],
  [/^(pom\.xml|build\.gradle(\.kts)?|mvnw|gradlew)$/, 'Java'],
  [/^build\.sbt$/, 'Scala'],
  [/^(project\.clj|deps\.edn)$/, 'Clojure'],
  [/^mix\.exs$/, 'Elixir'],
  [/^rebar\.config$/, 'Erlang'],
  [/^gleam\.toml$/, 'Gleam'],
  [/\.(cs|fs|vb)proj$|\.slnx?$/, '.NET'],
  [/^deno\.jsonc?$/, 'Deno'],
  [/^(bun\.lockb?|bunfig\.toml)$/, 'Bun'],
  [/^shard\.yml$/, 'Crystal'],
  [/^(stack\.yaml|cabal\.project)$|\.cabal$/, 'Haskell'],
  [/^dune-project$/, 'OCaml'],
  [/^Package\.swift$/, 'Swift'],
  [/^pubspec\.yaml$/, 'Dart'],
  [/^build\.zig$/, 'Zig'],
  [/\.nimble$/, 'Nim'],
  [/^CMakeLists\.txt$/, 'C or C++'],
  [/^(requirements.*\.txt|pyproject\.toml|Pipfile|setup\.py|environment\.yml|manage\.py)$/, 'Python'],
  [/^package\.json$/, 'Node'],
  [/^_config\.yml$/, 'Jekyll'],
  [/^hugo\.(toml|ya?ml|json)$/, 'Hugo'],
  [/^mkdocs\.ya?ml$/, 'MkDocs'],
  [/^wrangler\.(toml|jsonc?)$/, 'a worker of Cloudflare'],
  [/^(vercel|netlify|fly|render|railway|app|serverless)\.(json|toml|ya?ml)$/, 'settings of another platform'],
  [/\.ipynb$/, 'a notebook'],
  [/\.tf$/, 'Terraform'],
  [/\.php$/, 'PHP'],
]

const dockerfile = /^(Dockerfile|Containerfile)(\..+)?$/
/** The advice for a Dockerfile on a server with containers, where only one of another name than `Dockerfile` is left, and without. */
const forDockerfile = {
  images: 'name it by "dockerfile" in fairlead.json',
  none: 'which needs Docker: the operator of the server turns it on with FAIRLEAD_RUNTIME=process,docker',
}

const mostNamed = 6

/** The names in a folder. */
export interface Names {
  readonly files: readonly string[]
  readonly folders: readonly string[]
}

/**
 * Says in a sentence which files and folders a folder has, those first that tell what it is; at most six of each. Names come
 * from the repository, so that unprintable ones are left out.
 *
 * @param images true when the server runs container images
 */
export function describeSeen({ files, folders }: Names, images: boolean): string {
  const known = (name: string) =>
    dockerfile.test(name)
      ? forDockerfile[images ? 'images' : 'none']
      : telling.find(([pattern]) => pattern.test(name))?.[1]
  const shown = files.filter(isPlain)
  const first = shown.flatMap((name) => {
    const what = known(name)
    return what === undefined ? [] : [`${name} (${what})`]
  })
  const others = shown.filter((name) => known(name) === undefined && !name.startsWith('.'))
  const named = [...first, ...(first.length === 0 ? others : [])]
  const parts = [...listed(named), ...listed(folders.filter(isPlain).map((name) => `${name}/`))]
  return parts.length === 0 ? 'Fairlead saw no files.' : `Fairlead saw ${parts.join(', ')}.`
}

const listed = (names: readonly string[]): string[] => [
  ...names.slice(0, mostNamed),
  ...(names.length > mostNamed ? [`${names.length - mostNamed} more`] : []),
]

const isPlain = (name: string): boolean => name.length <= 60 && /^[^\p{C}]+$/u.test(name)
