import type { Row } from './row.ts'
import { javascript } from './rows/javascript.ts'
import { languages } from './rows/languages.ts'
import { python } from './rows/python.ts'

/** All applications of the corpus. */
export const rows: readonly Row[] = [...javascript, ...python, ...languages]
