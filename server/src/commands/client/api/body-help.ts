import type { Operation } from '../../../contract/operations.ts'
import { fieldsOf, sentences } from '../../../http/reference/fields.ts'
import { schemaOf } from '../../../http/reference/schemas.ts'

const width = 100
const indent = '      '

/** Returns the fields of an operation's body, for the help of its command; empty without a body. */
export function bodyHelp({ body }: Pick<Operation, 'body'>): string {
  if (body === undefined) return ''
  const fields = fieldsOf(schemaOf(body, 'input')).map(({ path, type, required, description, range, details }) =>
    [`  ${path} (${type}${required ? ', required' : ''})`, ...wrap(sentences(description, range, details))].join('\n'),
  )
  return ['', 'Fields of the body:', ...fields].join('\n')
}

/** Breaks a text into indented lines. */
function wrap(text: string): string[] {
  const lines: string[] = []
  for (const word of text.replaceAll('`', '').split(' ').filter(Boolean)) {
    const last = lines.at(-1)
    if (last === undefined || last.length + word.length >= width) lines.push(indent + word)
    else lines[lines.length - 1] = `${last} ${word}`
  }
  return lines
}
