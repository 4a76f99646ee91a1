import { failed, quote } from '../../source/result.ts'
import type { DevelopmentServer } from './development.ts'

/** The failure of a command that its owner wrote, and that is for development. */
export function refuseLine(where: string, { tool, instead }: DevelopmentServer): ReturnType<typeof failed> {
  const advice =
    instead === null
      ? 'Name the command for production, or remove it: then Fairlead looks for one itself.'
      : `Write ${quote(instead.join(' '))} instead.`
  return failed(
    'development_server',
    `${where} runs ${quote(tool)}, which is for development and not for the public. ${advice}`,
  )
}
