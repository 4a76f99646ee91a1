/** Letters of more than one script in a label, where people write like that (UTS 39, section 5.2, "highly restrictive"). */
const written: readonly (readonly string[])[] = [
  ['Latin', 'Han', 'Hiragana', 'Katakana'],
  ['Latin', 'Han', 'Bopomofo'],
  ['Latin', 'Han', 'Hangul'],
]

/** The scripts whose letters can be taken for others; every other script is one of its own, `Other`. */
const scripts = [
  ...['Latin', 'Cyrillic', 'Greek', 'Armenian', 'Cherokee', 'Georgian', 'Hebrew', 'Arabic', 'Thai', 'Devanagari'],
  ...['Han', 'Hiragana', 'Katakana', 'Bopomofo', 'Hangul'],
] as const
const patterns = scripts.map((name) => ({
  name: name as string,
  letter: new RegExp(`\\p{Script_Extensions=${name}}`, 'u'),
}))

/** Letters that look like Latin ones: whole words are made of them, such as `аррӏе`. */
const lookAlikes = [
  { letters: /^[асԁеһіјӏорԛѕԝхуъьүѵѡ0-9-]+$/u, script: 'Cyrillic' },
  { letters: /^[αικνρυωηοτ0-9-]+$/u, script: 'Greek' },
] as const

/** Tells if the letters of a label are of scripts that nobody writes together, such as one Cyrillic `а` in a Latin word. */
export function mixesScripts(label: string): boolean {
  const letters = [...label].filter((character) => /\p{L}/u.test(character))
  const possible = letters.map(scriptsOf)
  const allowed = [...written, ...scripts.map((name) => [name as string]), ['Other']]
  return !allowed.some((together) => possible.every((some) => some.some((name) => together.includes(name))))
}

/** A letter can be of several scripts, as the Japanese prolonged sound mark is. */
function scriptsOf(letter: string): string[] {
  const found = patterns.filter((script) => script.letter.test(letter)).map(({ name }) => name)
  return found.length > 0 ? found : ['Other']
}

/** Tells if a whole label can be read as a Latin word, below a top-level domain that is not of its script. */
export function imitatesLatin(label: string, topLevel: string): boolean {
  return lookAlikes.some(({ letters, script }) => {
    const isOfScript = new RegExp(`\\p{Script=${script}}`, 'u')
    return letters.test(label) && isOfScript.test(label) && !isOfScript.test(topLevel)
  })
}
