export { deploymentHeader } from './http1/deployment-header.ts'
