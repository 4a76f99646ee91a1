import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../data/client.ts'
import { Button } from '../../ui/controls/button.tsx'
import { SecretDialog } from '../../ui/dialogs/secret-dialog.tsx'
import { ErrorAlert } from '../../ui/page/states.tsx'
import { Step } from './step.tsx'

export function KeyStep({ done, projectId }: { readonly done: boolean; readonly projectId: string | undefined }) {
  return (
    <Step done={done} title="An API key">
      <p className="mb-2 text-muted">
        Store it as the secret <code>FAIRLEAD_API_KEY</code> of your repository.
      </p>
      <CreateFirstKey projectId={projectId} />
    </Step>
  )
}

function CreateFirstKey({ projectId }: { readonly projectId: string | undefined }) {
  const queryClient = useQueryClient()
  const [secret, setSecret] = useState<string>()
  const create = useMutation({
    mutationFn: () =>
      api.apiKeys.create({
        body: {
          name: 'GitHub Actions',
          preset: 'deploy',
          project_ids: projectId === undefined ? null : [projectId],
          expires_in_days: 90,
        },
      }),
    onSuccess: async ({ key }) => {
      setSecret(key)
      await queryClient.invalidateQueries({ queryKey: ['api-keys'] })
    },
  })
  return (
    <div className="grid justify-items-start gap-2">
      <Button busy={create.isPending} disabled={projectId === undefined} onClick={() => create.mutate()}>
        Create a key for this project
      </Button>
      {create.error !== null && <ErrorAlert error={create.error} />}
      <SecretDialog title="Your new API key" secret={secret} onDone={() => setSecret(undefined)} />
    </div>
  )
}
