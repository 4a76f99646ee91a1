import { formatImageReference, longestReference, parseImageReference } from '../../../../contract/image-reference.ts'

/** Returns what an image's name stands for, with nothing left out; null for what is no name. */
export function fullName(image: string): string | null {
  const reference = parseImageReference(image)
  return 'problem' in reference ? null : formatImageReference(reference)
}

/** Returns the full names of the images that a Dockerfile begins with, copies from or is read by, and those of its stages. */
export function imagesIn(dockerfile: string): ReadonlySet<string> {
  const values = new Map<string, string>()
  const names: string[] = []
  for (const line of dockerfile.replaceAll(/\\[ \t]*\r?\n/g, ' ').split('\n')) {
    const [instruction = '', ...words] = line.trim().split(/\s+/)
    switch (instruction.toUpperCase()) {
      case 'ARG':
        for (const [, name = '', value = ''] of words.map((word) => argument.exec(word) ?? [])) {
          values.set(name, expanded(value, values))
        }
        break
      case 'FROM':
        names.push(words.find((word) => !word.startsWith('--')) ?? '')
        break
      default:
        names.push(syntax.exec(line)?.[1] ?? '')
        for (const [, name = ''] of line.matchAll(source)) names.push(name)
    }
  }
  return new Set(names.map((name) => fullName(expanded(name, values))).filter((name) => name !== null))
}

const argument = /^(\w+)=["']?([^"']*)["']?$/
const syntax = /^\s*#\s*syntax\s*=\s*(\S+)/i
/** `COPY --from=…`, and `RUN --mount=type=bind,from=…`. */
const source = /[-,=]from=([^\s,]+)/g
const variable = /\$(?:(\w+)|\{(\w+)(?::-([^}]{0,128}))?\})/g

/** Puts in the values of build arguments, which are those that the Dockerfile gives itself. */
const expanded = (text: string, values: ReadonlyMap<string, string>): string =>
  text
    .slice(0, longestReference)
    .replaceAll(variable, (whole, plain, braced, otherwise) => values.get(plain ?? braced) ?? otherwise ?? whole)
    .slice(0, longestReference)
