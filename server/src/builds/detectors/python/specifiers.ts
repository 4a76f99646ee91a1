/** The three numbers of a version. */
export type Release = readonly [number, number, number]

/** No range that people write is as long. */
const longest = 200

/**
 * Returns a function that tells whether a version of Python is allowed; null for a text that is no range. Reads version
 * specifiers (PEP 440), a plain version as in `.python-version` (`3.11`, `cpython-3.11.4`) and Poetry's ranges (`^3.10`,
 * `~3.10`, `>=3.8 || ^3.12`, `*`).
 */
export function readRange(text: string): ((release: Release) => boolean) | null {
  if (text.length > longest) return null
  const alternatives = text
    .replace(/^(?:cpython|python)[-@ ]?/i, '')
    .replaceAll(/([<>=!~^])[ \t]+/g, '$1')
    .split('||')
    .map((part) => part.split(/[,\s]+(?=[<>=!~^\d*])/).filter((clause) => clause !== ''))
    .map((clauses) => clauses.map(readClause))
  if (alternatives.some((clauses) => clauses.length === 0 || clauses.includes(null))) return null
  return (release) => alternatives.some((clauses) => clauses.every((clause) => clause?.(release)))
}

function readClause(clause: string): ((release: Release) => boolean) | null {
  if (clause.trim() === '*') return () => true
  const [, operator = '', major, minor, patch, star] =
    /^\s*(===?|~=|!=|<=?|>=?|\^|~)?\s*v?(\d{1,4})(?:\.(\d{1,4}))?(?:\.(\d{1,4}))?(\.\*)?(?:[A-Za-z]+\d*|[-+][\w.-]*)?\s*$/.exec(
      clause,
    ) ?? []
  if (major === undefined) return null
  const given = [major, minor, patch].flatMap((part) => (part === undefined ? [] : [Number(part)]))
  const base: Release = [given[0] ?? 0, given[1] ?? 0, given[2] ?? 0]
  const matches = (release: Release) => given.every((part, index) => release[index] === part)
  switch (operator) {
    case '':
      // The third number of a plain version is not insisted on: distributions carry one release of each version.
      return (release) => given.slice(0, 2).every((part, index) => release[index] === part)
    case '==':
    case '===':
      return matches
    case '!=':
      return star === undefined ? (release) => compare(release, base) !== 0 : (release) => !matches(release)
    case '>':
      return (release) => compare(release, base) > 0
    case '>=':
      return (release) => compare(release, base) >= 0
    case '<':
      return (release) => compare(release, base) < 0
    case '<=':
      // All of 3.12 is meant by those who write <=3.12.
      return (release) => compare(release, base) <= 0 || matches(release)
    case '^':
      return (release) => compare(release, base) >= 0 && release[0] === base[0]
    case '~':
      return (release) => compare(release, base) >= 0 && given.slice(0, 2).every((part, at) => release[at] === part)
    default:
      // ~=: at least, with the last number left open.
      return (release) => compare(release, base) >= 0 && given.slice(0, -1).every((part, at) => release[at] === part)
  }
}

/** Negative where `a` is the earlier version. */
export function compare(a: Release, b: Release): number {
  return a[0] - b[0] || a[1] - b[1] || a[2] - b[2]
}
