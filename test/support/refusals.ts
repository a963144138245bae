const JSON_TYPE = { 'content-type': 'application/json' }

/** What a service may answer to an upload that it does not take, by what a person would call it. */
export const REFUSALS = {
  'a refusal (422)': {
    status: 422,
    headers: JSON_TYPE,
    body: '{"detail":[{"loc":["body","file"],"msg":"No.","type":"validation_error"}]}',
  },
  'an error of its own (500)': { status: 500, headers: JSON_TYPE, body: '{"detail":"Broken."}' },
  'no bag id': { status: 200, headers: JSON_TYPE, body: '{}' },
} as const
