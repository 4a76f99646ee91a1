import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../../data/client.ts'
import { repositoryName } from '../../../data/repository-name.ts'
import { TextField } from '../../../ui/forms/field.tsx'
import { Form } from '../../../ui/forms/form.tsx'
import { textOf } from '../../../ui/forms/values.ts'

const conditions = ['branch', 'environment', 'event', 'workflow', 'issuer'] as const

interface CreateTrustProps {
  readonly projectId: string
  readonly onDone: () => void
}

/** Makes a rule from the address of a repository. */
export function CreateTrust({ projectId, onDone }: CreateTrustProps) {
  const queryClient = useQueryClient()
  const [address, setAddress] = useState('')
  const create = useMutation({
    mutationFn: (values: FormData) => {
      const given = conditions.flatMap((name) => {
        const text = textOf(values, name)
        return text === '' ? [] : [[name, text] as const]
      })
      const [repository, id] = [repositoryName(address), textOf(values, 'repository_id')]
      return api.trust.create({
        params: { project_id: projectId },
        body: {
          ...(repository !== '' && { repository }),
          ...(id !== '' && { repository_id: id }),
          ...Object.fromEntries(given),
        },
      })
    },
    onSuccess: async () => {
      await queryClient.invalidateQueries({ queryKey: ['projects', projectId, 'trust'] })
      onDone()
    },
  })
  return (
    <Form mutation={create} submit="Trust repository" onCancel={onDone}>
      <TextField
        label="Repository"
        name="repository"
        value={address}
        onChange={({ target }) => setAddress(target.value)}
        autoComplete="off"
        spellCheck={false}
        placeholder="https://github.com/acme/shop"
      />
      <TextField
        label="Id of the repository"
        name="repository_id"
        inputMode="numeric"
        autoComplete="off"
        placeholder="700100200"
        hint={<IdHint repository={repositoryName(address)} />}
      />
      <div className="grid gap-4 sm:grid-cols-2">
        <TextField
          label="Branch"
          name="branch"
          defaultValue="main"
          autoComplete="off"
          spellCheck={false}
          hint="Empty for all. * stands for any characters."
        />
        <TextField
          label="Environment"
          name="environment"
          autoComplete="off"
          spellCheck={false}
          placeholder="any"
          hint="That of the job in the workflow."
        />
        <TextField
          label="Event"
          name="event"
          autoComplete="off"
          spellCheck={false}
          placeholder="all but pull requests"
        />
        <TextField label="Workflow file" name="workflow" autoComplete="off" spellCheck={false} placeholder="any" />
      </div>
      <TextField
        label="Issuer"
        name="issuer"
        autoComplete="off"
        spellCheck={false}
        placeholder="https://token.actions.githubusercontent.com"
        hint="Only for other services than GitHub, such as https://gitlab.example.com."
      />
    </Form>
  )
}

/** Says where the id is found. */
function IdHint({ repository }: { readonly repository: string }) {
  const name = /^[\w.-]+\/[\w.-]+$/.test(repository) ? repository : 'OWNER/NAME'
  return (
    <>
      It never changes, and no other repository gets it, unlike a name. Ask GitHub for it:{' '}
      <code className="break-all">gh api repos/{name} --jq .id</code>
    </>
  )
}
