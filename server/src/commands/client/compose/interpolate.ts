import { CommandError } from '../command-error.ts'

/** The sources of a value's variables. */
export interface Scope {
  readonly variables: Readonly<Record<string, string>>
  /** The place of the value in the file, for messages. */
  readonly place: string
  /** Is told each variable that has neither a value nor a default. */
  readonly missing: (name: string) => void
}

/** A use of a variable: all of a braced one but for what follows its name. */
const use = /\$(?:(?<escaped>\$)|(?<plain>[A-Za-z_]\w*)|\{(?:(?<name>[A-Za-z_]\w*)(?<operator>:?[-?+])?)?)/g

/**
 * Puts variables into a value of a compose file, by the rules of the Compose specification: `$NAME`, `${NAME}`, `${NAME:-default}`,
 * `${NAME-default}`, `${NAME:?message}`, `${NAME?message}`, `${NAME:+other}`, `${NAME+other}`, and `$$` for one `$`, as is a `$`
 * before anything else. What follows the operator may have variables, too. A variable without a value and a default is empty.
 * Throws a `CommandError` for what the file calls required, and for any other `${`.
 */
export function interpolate(text: string, scope: Scope): string {
  let result = ''
  let at = 0
  for (const found of text.matchAll(use)) {
    if (found.index < at) continue
    const { escaped, plain, name, operator = '' } = found.groups as Record<string, string | undefined>
    result += text.slice(at, found.index)
    at = found.index + found[0].length
    if (escaped !== undefined) result += '$'
    else if (plain !== undefined) result += substituted(plain, '', '', scope)
    else if (name === undefined) throw misused(scope)
    else {
      const end = endOfBraces(text, at)
      if (end === null || (operator === '' && end !== at)) throw misused(scope)
      result += substituted(name, operator, text.slice(at, end), scope)
      at = end + 1
    }
  }
  return result + text.slice(at)
}

/** Returns where the braces end that are open at a place of the text; null if nowhere. */
function endOfBraces(text: string, from: number): number | null {
  let open = 1
  for (let at = from; at < text.length; at++) {
    if (text.startsWith('${', at)) open++
    if (text[at] === '}' && --open === 0) return at
  }
  return null
}

function substituted(name: string, operator: string, word: string, scope: Scope): string {
  const { variables, place, missing } = scope
  const value = Object.hasOwn(variables, name) ? variables[name] : undefined
  const isGiven = value !== undefined && (value !== '' || !operator.startsWith(':'))
  if (operator.endsWith('+')) return isGiven ? interpolate(word, scope) : ''
  if (isGiven) return value
  if (operator.endsWith('-')) return interpolate(word, scope)
  if (operator.endsWith('?'))
    throw new CommandError(`${place} needs the variable ${name}${word === '' ? '' : `: ${word}`}`)
  missing(name)
  return ''
}

const misused = ({ place }: Scope): CommandError =>
  new CommandError(`${place} has $\{ without a name and its }: write $$ for the character $ itself.`)
