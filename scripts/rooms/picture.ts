import { innerRooms, serverRooms } from './table.ts'

/** Draws the rooms as floors: each floor may import the floors below it, and no floor one above. */
export function picture(): string {
  const floors = [['cli'], ['commands'], ['server, composition'], ...floorsOf()]
  const width = Math.max(...floors.map((floor) => floor.join('   ').length))
  const lines = floors.map((floor) => `│ ${floor.join('   ').padEnd(width)} │`)
  const line = '─'.repeat(width + 2)
  const rows = lines.flatMap((row, index) => (index === 0 ? [row] : [`├${line}┤`, row]))
  const inner = innerRooms.map(
    ({ path, imports }) => `${path}${imports.length === 0 ? '' : ` ─▶ ${imports.map(nameOf).join(', ')}`}`,
  )
  return ['```', `┌${line}┐`, ...rows, `└${line}┘`, '', ...inner, '```'].join('\n')
}

const nameOf = (path: string): string => path.split('/').at(-1) ?? path

/** The rooms by floor, the highest first: a room stands one floor above the highest room that it may import. */
function floorsOf(): string[][] {
  const floorOf = (path: string): number => {
    const room = serverRooms.find((each) => each.path === path)
    return 1 + Math.max(-1, ...(room?.imports ?? []).map(floorOf))
  }
  const floors: string[][] = []
  for (const { path } of serverRooms) {
    const floor = floorOf(path)
    floors[floor] = [...(floors[floor] ?? []), path]
  }
  return floors.toReversed()
}
