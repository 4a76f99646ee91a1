import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '../../data/client.ts'
import type { Variable } from '../../data/dotenv.ts'
import { TextField } from '../../ui/field.tsx'
import { Form, textOf } from '../../ui/form.tsx'
import { problemOf } from '../../ui/states.tsx'
import { Variables } from './variables.tsx'

/** What a deployment is made again from. */
export interface Source {
  readonly name: string
  readonly git_url: string
  readonly branch: string | null
}

interface CreateDeploymentProps {
  readonly projectId: string
  readonly source?: Source
  readonly onCancel: () => void
}

const fields = ['name', 'git_url', 'branch', 'git_token'] as const

export function CreateDeployment({ projectId, source, onCancel }: CreateDeploymentProps) {
  const [variables, setVariables] = useState<readonly Variable[]>([])
  const queries = useQueryClient()
  const navigate = useNavigate()
  const create = useMutation({
    mutationFn: (values: FormData) => {
      const [branch, token] = [textOf(values, 'branch'), textOf(values, 'git_token')]
      return api.deployments.create({
        params: { project_id: projectId },
        body: {
          name: textOf(values, 'name'),
          git_url: textOf(values, 'git_url'),
          ...(branch !== '' && { branch }),
          ...(token !== '' && { git_token: token }),
          env_vars: Object.fromEntries(
            variables.filter(({ name }) => name.trim() !== '').map(({ name, value }) => [name.trim(), value]),
          ),
        },
      })
    },
    onSuccess: async ({ id }) => {
      await queries.invalidateQueries({ queryKey: ['projects', projectId] })
      await navigate({
        to: '/projects/$projectId/deployments/$deploymentId',
        params: { projectId, deploymentId: id },
      })
    },
  })
  return (
    <Form
      submit="Deploy"
      busy={create.isPending}
      error={create.error}
      fields={fields}
      onSubmit={(values) => create.mutate(values)}
      onCancel={onCancel}
    >
      <TextField
        label="App"
        name="name"
        defaultValue={source?.name}
        autoComplete="off"
        hint="A second deployment of the same name is a new release of that app."
        problem={problemOf(create.error, 'name')}
      />
      <TextField
        label="Git repository"
        name="git_url"
        defaultValue={source?.git_url}
        autoComplete="off"
        spellCheck={false}
        placeholder="https://github.com/you/app.git"
        problem={problemOf(create.error, 'git_url')}
      />
      <div className="grid gap-4 sm:grid-cols-2">
        <TextField
          label="Branch"
          name="branch"
          defaultValue={source?.branch ?? undefined}
          autoComplete="off"
          spellCheck={false}
          placeholder="the default branch"
          problem={problemOf(create.error, 'branch')}
        />
        <TextField
          label="Access token"
          name="git_token"
          type="password"
          autoComplete="off"
          placeholder="for private repositories"
          problem={problemOf(create.error, 'git_token')}
        />
      </div>
      <Variables variables={variables} onChange={setVariables} error={create.error} />
    </Form>
  )
}
