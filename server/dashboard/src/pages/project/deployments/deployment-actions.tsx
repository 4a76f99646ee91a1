import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../../data/client.ts'
import type { Deployment } from '../../../data/deployments.ts'
import { Button, buttonClass } from '../../../ui/controls/button.tsx'
import { ErrorAlert } from '../../../ui/page/states.tsx'
import { PromoteDialog } from './promote-dialog.tsx'
import { Redeploy } from './redeploy.tsx'
import { RollbackDialog, type RollbackTarget } from './rollback-dialog.tsx'

type Action = 'cancel' | 'stop' | 'restart' | 'rollback'

/** A rollback asks first, in a separate dialog. */
type Direct = Exclude<Action, 'rollback'>

const labels: Readonly<Record<Action, string>> = {
  cancel: 'Cancel',
  stop: 'Stop',
  restart: 'Restart',
  rollback: 'Roll back to this',
}

/** The actions that the state allows. Only a kept release can be started or rolled back to. */
function actionsOf({ id, status, kept, latest_id }: Deployment): readonly Action[] {
  if (status === 'building') return ['cancel']
  if (status === 'running') return ['restart', 'stop']
  if (!kept) return []
  return status === 'stopped' && id === latest_id ? ['restart'] : ['rollback']
}

function targetOf({ commit, commit_message, commit_author, ...deployment }: Deployment): RollbackTarget {
  const details = { message: commit_message, author: commit_author, at: null }
  return { ...deployment, commit: commit === null ? null : { hash: commit, ...details } }
}

export function DeploymentActions({ deployment }: { readonly deployment: Deployment }) {
  const { id, project_id, status } = deployment
  const [redeploying, setRedeploying] = useState(false)
  const [rollingBack, setRollingBack] = useState(false)
  const [promoting, setPromoting] = useState(false)
  const queryClient = useQueryClient()
  const act = useMutation({
    mutationFn: (action: Direct) => api.deployments[action]({ params: { project_id, id } }),
    onSettled: () => queryClient.invalidateQueries({ queryKey: ['projects', project_id] }),
  })
  return (
    <>
      {actionsOf(deployment).map((action) => (
        <Button
          key={action}
          variant={action === 'stop' || action === 'cancel' ? 'danger' : 'plain'}
          busy={act.isPending && act.variables === action}
          onClick={() => (action === 'rollback' ? setRollingBack(true) : act.mutate(action))}
        >
          {labels[action]}
        </Button>
      ))}
      <Button onClick={() => setRedeploying(true)}>Redeploy</Button>
      {deployment.kept && status !== 'building' && <Button onClick={() => setPromoting(true)}>Promote</Button>}
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
      {promoting && <PromoteDialog projectId={project_id} deploymentId={id} onClose={() => setPromoting(false)} />}
      {rollingBack && (
        <RollbackDialog
          projectId={project_id}
          appId={deployment.app_id}
          target={targetOf(deployment)}
          onClose={() => setRollingBack(false)}
        />
      )}
    </>
  )
}
