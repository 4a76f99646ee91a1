import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { scan } from './rooms/scan.ts'

/** The folders whose comments and strings are checked. */
const folders = ['server/src', 'server/dashboard/src', 'action/src', 'receiver/src', 'cli/src', 'scripts'] as const

/** Phrases that readers from other countries read twice. */
const phrases: readonly (readonly [phrase: RegExp, advice: string])[] = [
  [/\b(?:that|those) of\b/i, 'Repeat the noun, as in "the limit of the plan".'],
  [/\bof (?:my|your|his|her|its|our|their) own\b/i, 'Write "its", "your" or "a separate".'],
  [
    /\bthe ones? (?:that|which|who|whose|of|in|with|without|for|from|to|at|on|by|before|after|is|was|has|had|it|they|we|you)\b/i,
    'Write the noun in place of "the one".',
  ],
  [/\bwhoever\b/i, 'Write who it is, as in "every user who".'],
  [/\b(?:whatever|whichever)\b/i, 'Write "any", "every" or "regardless of".'],
  [/\bmeanwhile\b/i, 'Write when: "during the copy", "since then", "until then".'],
  [/\bnobody's\b/i, 'Write a plain negative, as in "is never trusted".'],
  [/(?<!\bthere )\b(?:is|are|was|were) none\b/i, 'Write what it is not, as in "is not valid".'],
  [/(?<!\bthere )\b(?:is|are) no (?!longer|more|less|other)\w+/i, 'Write "is not a" or "are not".'],
  [
    /\b(?:for|with|in|to|by|of|on|at|from) (?:[\w.'`-]+ )?[\w.'`-]+ alone\b/i,
    'Write "only" before what it limits, as in "only for images".',
  ],
  [/(?<!\b(?:encrypted|encryption) )\bat rest\b/i, 'Write "stopped".'],
  [/\b(?:is|are) to be\b/i, 'Write "must be" or "will be".'],
  [/\bthe latter\b/i, 'Repeat the noun.'],
  [/\bwhat is left\b/i, 'Write the noun, as in "the remaining files".'],
  [/\bin case that\b/i, 'Write "in case".'],
  [/\bso that who\b/i, 'Write who it is.'],
]

/** The space between two words, or the end of a line in a comment. */
const gap = String.raw`(?:\s+(?:(?:\*|//)\s+)?)`
const searched = phrases.map(
  ([{ source, flags }, advice]) => [new RegExp(source.replaceAll(' ', gap), `${flags}g`), advice] as const,
)
const any = new RegExp(searched.map(([{ source }]) => source).join('|'), 'i')

/** Returns a sentence for each phrase in the comments and strings of a source: its place, and what to write instead. */
export function phrasesIn(path: string, source: string): string[] {
  if (!any.test(source)) return []
  return scan(path, source).texts.flatMap(({ text, offset }) =>
    searched.flatMap(([phrase, advice]) =>
      [...text.matchAll(phrase)].map((found) => {
        const line = source.slice(0, offset + found.index).split('\n').length
        const words = found[0].replace(new RegExp(gap, 'g'), ' ')
        return `${path}:${line} says "${words}". ${advice}`
      }),
    ),
  )
}

if (import.meta.main) {
  const found = folders.flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.[cm]?[jt]sx?$/.test(name))
      .toSorted()
      .map((name) => join(folder, name))
      .filter((path) => path !== 'scripts/phrases.ts')
      .flatMap((path) => phrasesIn(path, readFileSync(path, 'utf8'))),
  )
  process.stderr.write(found.map((each) => `${each}\n`).join(''))
  if (found.length > 0) process.exitCode = 1
}
