import { expect, it } from 'vitest'
import { giveUpRights } from '../../../server/src/platform/users.ts'

it('a gateway of a server that is root keeps no right, or the one to listen on low ports', () => {
  const runAs = { user: { uid: 7, gid: 7 }, setpriv: '/bin/setpriv', node: '/node', program: '/main.js' }
  const always = ['/bin/setpriv', '--reuid=7', '--regid=7', '--clear-groups']
  const sets = (kept: string) => [`--inh-caps=${kept}`, `--ambient-caps=${kept}`, `--bounding-set=${kept}`]
  const rest = ['--no-new-privs', '--']
  expect(giveUpRights({ ...runAs, hasLowPorts: false })).toEqual([...always, ...sets('-all'), ...rest])
  expect(giveUpRights({ ...runAs, hasLowPorts: true })).toEqual([...always, ...sets('-all,+net_bind_service'), ...rest])
})
