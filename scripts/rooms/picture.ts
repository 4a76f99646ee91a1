import { innerRooms, type Room, serverRooms } from './table.ts'

/** Draws the rooms as floors, where each floor may import the floors below it, and the folders within rooms as chains. */
export function picture(): string {
  const floors = [['cli'], ['commands'], ['server'], ...floorsOf(serverRooms).map(namesOf)]
  const width = Math.max(...floors.map((floor) => floor.join('   ').length))
  const line = '─'.repeat(width + 2)
  const rows = floors.map((floor) => `│ ${floor.join('   ').padEnd(width)} │`)
  const house = [`┌${line}┐`, rows.join(`\n├${line}┤\n`), `└${line}┘`]
  const around = [...new Set(innerRooms.map(({ path }) => parentOf(path)))]
  const inner = around.map((room) => `${room}: ${chain(innerRooms.filter(({ path }) => parentOf(path) === room))}`)
  return ['```', ...house, '', 'Within rooms, importers stand on the left:', ...inner, '```'].join('\n')
}

const chain = (rooms: readonly Room[]): string =>
  floorsOf(rooms)
    .map((floor) => namesOf(floor).join(', '))
    .join(' ─▶ ')

const namesOf = (rooms: readonly Room[]): string[] => rooms.map(({ path }) => path.split('/').at(-1) ?? path)

const parentOf = (path: string): string => path.split('/').slice(0, -1).join('/')

/** The rooms by floor, the highest first: a room stands one floor above the highest room that it may import. */
function floorsOf(rooms: readonly Room[]): Room[][] {
  const floorOf = (path: string): number => {
    const room = rooms.find((each) => each.path === path)
    return 1 + Math.max(-1, ...(room?.imports ?? []).map(floorOf))
  }
  const floors: Room[][] = []
  for (const room of rooms) {
    const floor = floorOf(room.path)
    floors[floor] = [...(floors[floor] ?? []), room]
  }
  return floors.toReversed()
}
