import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { door } from '../../data/client.ts'
import { sessionsQuery } from '../../data/queries.ts'
import { browserOf } from '../../data/user-agent.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Table } from '../../ui/display/table.tsx'
import { Time } from '../../ui/display/time.tsx'
import { Panel } from '../../ui/page/page.tsx'
import { Queried } from '../../ui/page/query-view.tsx'
import { Problem } from '../../ui/page/states.tsx'

export function Sessions() {
  const sessions = useQuery(sessionsQuery)
  const queries = useQueryClient()
  const revoke = useMutation({
    mutationFn: (id: string) => door.sessions.revoke({ params: { id } }),
    onSettled: () => queries.invalidateQueries({ queryKey: ['sessions'] }),
  })
  return (
    <Panel title="Where you are signed in" flush>
      {revoke.error !== null && (
        <div className="p-3">
          <Problem error={revoke.error} />
        </div>
      )}
      <Queried query={sessions} what="sessions">
        {(data) => (
          <Table
            label="Sessions"
            rows={data.sessions}
            keyOf={({ id }) => id}
            columns={[
              {
                title: 'Browser',
                cell: ({ user_agent }) => (
                  <span className="whitespace-nowrap" title={user_agent ?? undefined}>
                    {browserOf(user_agent)}
                  </span>
                ),
              },
              { title: 'Address', cell: ({ address }) => address, wide: true },
              { title: 'Signed in', cell: ({ created_at }) => <Time at={created_at} />, wide: true },
              { title: 'Last seen', cell: ({ last_seen_at }) => <Time at={last_seen_at} /> },
              {
                title: 'Action',
                align: 'right',
                cell: ({ id, current }) =>
                  current ? (
                    <span className="text-muted">this one</span>
                  ) : (
                    <Button
                      size="small"
                      look="danger"
                      busy={revoke.isPending && revoke.variables === id}
                      onClick={() => revoke.mutate(id)}
                    >
                      Sign out
                    </Button>
                  ),
              },
            ]}
          />
        )}
      </Queried>
    </Panel>
  )
}
