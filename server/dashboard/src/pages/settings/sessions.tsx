import type { DashboardResponse } from '@fairlead/server/dashboard-client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { dashboardApi } from '../../data/client.ts'
import { sessionsQuery } from '../../data/queries.ts'
import { browserName } from '../../data/user-agent.ts'
import { Button } from '../../ui/controls/button.tsx'
import { type Column, Table } from '../../ui/display/table.tsx'
import { Time } from '../../ui/display/time.tsx'
import { Panel } from '../../ui/page/page.tsx'
import { QueryView } from '../../ui/page/query-view.tsx'
import { Empty, ErrorAlert } from '../../ui/page/states.tsx'

type Session = DashboardResponse<'sessions.list'>['sessions'][number]

export function Sessions() {
  const sessions = useQuery(sessionsQuery)
  const queryClient = useQueryClient()
  const revoke = useMutation({
    mutationFn: (id: string) => dashboardApi.sessions.revoke({ params: { id } }),
    onSettled: () => queryClient.invalidateQueries({ queryKey: ['sessions'] }),
  })
  const action: Column<Session> = {
    title: 'Action',
    align: 'right',
    cell: ({ id, current }) =>
      current ? (
        <span className="text-muted">this session</span>
      ) : (
        <Button
          size="small"
          variant="danger"
          busy={revoke.isPending && revoke.variables === id}
          onClick={() => revoke.mutate(id)}
        >
          Sign out
        </Button>
      ),
  }
  return (
    <Panel title="Your sessions" flush>
      {revoke.error !== null && (
        <div className="p-3">
          <ErrorAlert error={revoke.error} />
        </div>
      )}
      <QueryView query={sessions} label="sessions">
        {(data) => (
          <Table
            label="Sessions"
            rows={data.sessions}
            keyOf={({ id }) => id}
            columns={[...columns, action]}
            empty={<Empty title="No session" />}
          />
        )}
      </QueryView>
    </Panel>
  )
}

const columns: readonly Column<Session>[] = [
  {
    title: 'Browser',
    cell: ({ user_agent }) => (
      <span className="whitespace-nowrap" title={user_agent ?? undefined}>
        {browserName(user_agent)}
      </span>
    ),
  },
  { title: 'Address', cell: ({ address }) => address, wideOnly: true },
  { title: 'Signed in', cell: ({ created_at }) => <Time at={created_at} />, wideOnly: true },
  { title: 'Last seen', cell: ({ last_seen_at }) => <Time at={last_seen_at} /> },
]
