import { withVisible } from '../../contract/invisible.ts'
import { createMasker } from '../../logs/masking.ts'
import type { CommitInfo } from '../../sources/sources.ts'
import type { Variables } from '../release-variables.ts'
import type { CommitDetails } from '../tables.ts'

const longestMessage = 1_000
const longestName = 200

/**
 * Returns what is kept of a commit: short texts that a terminal can show, without the values of variables, which a message
 * can repeat. They are masked first: half of one could be left otherwise.
 */
export function commitDetails(info: CommitInfo, variables: Variables): CommitDetails {
  const { mask } = createMasker(Object.values(variables))
  return {
    message: cut(lines(mask(info.message)), longestMessage),
    author: cut(
      withVisible(mask(info.author))
        .replace(/\p{Cc}+/gu, ' ')
        .trim(),
      longestName,
    ),
    at: cut(info.at.trim(), longestName),
  }
}

/** Removes control characters, which a terminal would obey, except for the ends of lines. */
function lines(text: string): string {
  const plain = text.replace(/\r\n?/g, '\n').replace(/\t/g, ' ')
  return withVisible(plain.replace(/(?!\n)\p{Cc}/gu, '')).trim()
}

const cut = (text: string, length: number): string => [...text].slice(0, length).join('').trimEnd()
