import { CommandError } from '../command-error.ts'

type Variables = Readonly<Record<string, string>>

/** A use of a variable: all of a braced one but for what follows its name. */
const use = /\$(?:(?<escaped>\$)|(?<plain>[A-Za-z_]\w*)|\{(?<name>[A-Za-z_]\w*)(?<operator>:?[-?+])?)?/g

/**
 * Puts variables into a value of a compose file, by the rules of the Compose specification: `$NAME`, `${NAME}`, `${NAME:-default}`,
 * `${NAME-default}`, `${NAME:?message}`, `${NAME?message}`, `${NAME:+other}`, `${NAME+other}`, and `$$` for one `$`. What
 * follows the operator may have variables, too. A variable without a value and a default is empty. Throws a `CommandError` for
 * what the file calls required, and for any other `$`.
 */
export function interpolate(text: string, variables: Variables): string {
  let result = ''
  let at = 0
  for (const found of text.matchAll(use)) {
    if (found.index < at) continue
    const { escaped, plain, name, operator = '' } = found.groups as Record<string, string | undefined>
    result += text.slice(at, found.index)
    at = found.index + found[0].length
    if (escaped !== undefined) result += '$'
    else if (plain !== undefined) result += given(variables, plain) ?? ''
    else if (name === undefined) throw misused()
    else {
      const end = endOfBraces(text, at)
      if (operator === '' && end !== at) throw misused()
      result += substituted(name, operator, text.slice(at, end), variables)
      at = end + 1
    }
  }
  return result + text.slice(at)
}

const given = (variables: Variables, name: string): string | undefined =>
  Object.hasOwn(variables, name) ? variables[name] : undefined

/** Returns where the braces end that are open at a place of the text. */
function endOfBraces(text: string, from: number): number {
  let open = 1
  for (let at = from; at < text.length; at++) {
    if (text.startsWith('${', at)) open++
    if (text[at] === '}' && --open === 0) return at
  }
  throw misused()
}

function substituted(name: string, operator: string, word: string, variables: Variables): string {
  const value = given(variables, name)
  const isGiven = value !== undefined && (value !== '' || !operator.startsWith(':'))
  if (operator.endsWith('+')) return isGiven ? interpolate(word, variables) : ''
  if (isGiven) return value
  if (operator.endsWith('-')) return interpolate(word, variables)
  if (!operator.endsWith('?')) return ''
  throw new CommandError(`The compose file needs the variable ${name}${word === '' ? '' : `: ${word}`}`)
}

const misused = (): CommandError =>
  new CommandError('The compose file has a $ that names no variable: write $$ for the character itself.')
