import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../../data/client.ts'
import type { Deployment } from '../../../data/deployments.ts'
import { Button, buttonClass } from '../../../ui/controls/button.tsx'
import { ErrorAlert } from '../../../ui/page/states.tsx'
import { Redeploy } from './redeploy.tsx'

type Action = 'cancel' | 'stop' | 'restart' | 'rollback'

const labels: Readonly<Record<Action, string>> = {
  cancel: 'Cancel',
  stop: 'Stop',
  restart: 'Restart',
  rollback: 'Roll back to this',
}

/** The actions allowed in each state. */
const actionsByStatus: Readonly<Record<Deployment['status'], readonly Action[]>> = {
  building: ['cancel'],
  running: ['restart', 'stop'],
  stopped: ['restart'],
  superseded: ['rollback'],
  failed: [],
  canceled: [],
}

export function DeploymentActions({ deployment }: { readonly deployment: Deployment }) {
  const { id, project_id, status } = deployment
  const [redeploying, setRedeploying] = useState(false)
  const queryClient = useQueryClient()
  const act = useMutation({
    mutationFn: (action: Action) => api.deployments[action]({ params: { project_id, id } }),
    onSettled: () => queryClient.invalidateQueries({ queryKey: ['projects', project_id] }),
  })
  return (
    <>
      {actionsByStatus[status].map((action) => (
        <Button
          key={action}
          variant={action === 'stop' || action === 'cancel' ? 'danger' : 'plain'}
          busy={act.isPending && act.variables === action}
          onClick={() => act.mutate(action)}
        >
          {labels[action]}
        </Button>
      ))}
      <Button onClick={() => setRedeploying(true)}>Redeploy</Button>
      {status === 'running' && (
        <a href={deployment.url} target="_blank" rel="noreferrer" className={buttonClass({ variant: 'primary' })}>
          Open app
        </a>
      )}
      {act.error !== null && (
        <div className="w-full">
          <ErrorAlert error={act.error} />
        </div>
      )}
      <Redeploy deployment={deployment} title="Redeploy" open={redeploying} onClose={() => setRedeploying(false)} />
    </>
  )
}
