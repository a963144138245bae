import { describe, expect, it } from 'vitest'
import { ConfigText } from '../../../src/profiles/config-text.ts'

const read = (text: string) => new ConfigText(text, '/c.yaml').read()

const SECRET = 'tok-0123456789abcdef'

describe('a config file', () => {
  it('gives profiles, the default one and options as they are written', () => {
    const { all, defaultName } = read(`# mine
default: work
profiles:
  work:
    url: https://a.example
    token: keyring
    account: 0017
    umask: 022
    write-back: true
    state-dir: ~/state
  home:
`)
    expect(defaultName).toBe('work')
    expect(all.map(({ name }) => name)).toEqual(['work', 'home'])
    expect(all[0]).toMatchObject({ usesKeyring: true, account: '0017' })
    expect(all[0]?.options.get('umask')).toEqual({ text: '022', line: 8 })
    expect(all[0]?.options.get('stateDir')).toEqual({ text: '~/state', line: 10 })
  })

  it.each(['', '\n# nothing\n', 'profiles:\n', 'profiles: {}\n'])('may say nothing: %j', (text) => {
    expect(read(text).all).toEqual([])
  })

  it.each([
    ['profiles\n', 1, 'lines such as "name: value"'],
    ['profiles:\n  work: [\n', 3, 'a bracket before it is not closed, or'],
    ['profiles:\n  work: {a: "b}\n', 3, 'a closing quote, bracket or comma'],
    ['profiles:\n  work:\n\turl: x\n', 3, 'expected'],
    ['profiles:\n  work: {}\n  work: {}\n', 3, 'there twice'],
    ['profiles: {}\n---\nprofiles: {}\n', 2, 'a second document'],
    ['profile:\n  work: {}\n', 1, '"default:" or "profiles:" is expected'],
    ['profiles:\n  a b:\n    url: http://x\n', 2, 'the name of a profile'],
    ['profiles:\n  - work\n', 2, 'lines such as'],
    ['profiles:\n  work: yes\n', 2, 'lines such as'],
    ['profiles:\n  work:\n    url:\n', 3, 'url: a value is expected'],
    ['profiles:\n  work:\n    cach-size: 1GB\n', 3, '"cach-size" is no option'],
    ['profiles:\n  work:\n    cache-size: 12q\n', 3, 'cache-size: "12q" is not a size'],
    ['profiles:\n  work:\n    read-only: yes\n', 3, '"yes" is neither true nor false'],
    ['profiles:\n  work:\n    url: example.org\n', 3, 'url: This is not the URL of a service'],
    [
      'profiles:\n  work:\n    state-dir: state\n',
      3,
      'a path is expected that begins with / or ~/',
    ],
    ['default: home\nprofiles:\n  work: {}\n', 1, 'default: one of work is expected'],
  ])('that is broken is refused by file and line: %j', (text, line, words) => {
    expect(() => read(text)).toThrow(
      expect.objectContaining({
        code: 'usage',
        message: expect.stringMatching(new RegExp(`^/c\\.yaml:${line}: `)) as string,
      }),
    )
    expect(() => read(text)).toThrow(words)
  })

  it.each([
    `profiles:\n  work:\n    token: ${SECRET}\n`,
    `profiles:\n  work: ${SECRET}\n`,
    `profiles:\n  work:\n    url: https://me:${SECRET}@a.example\n`,
    `profiles:\n  work:\n    token: "${SECRET}" x\n`,
    `${SECRET}\n`,
  ])('never shows a token that was written into it: %j', (text) => {
    let shown = 'nothing was refused'
    try {
      read(text)
    } catch (error) {
      shown = `${String(error)} ${JSON.stringify(error)}`
    }
    expect(shown).toContain('/c.yaml:')
    expect(shown).not.toContain(SECRET)
  })
})

describe('a change of a config file', () => {
  it('keeps comments, order and options that a person wrote', () => {
    const config = new ConfigText(
      `# mine
profiles:
  # the one at work
  work:
    url: https://old.example # moved soon
    token: keyring
    cache-size: 5GB # small disk
`,
      '/c.yaml',
    )
    config.setProfile('work', {
      account: 'u1',
      token: undefined,
      options: { url: 'https://new.example', tokenFile: '/t', local: undefined },
    })
    config.setDefault('work')
    expect(config.toString()).toBe(`# mine
profiles:
  # the one at work
  work:
    url: https://new.example # moved soon
    cache-size: 5GB # small disk
    account: u1
    token-file: /t
default: work
`)
  })

  it('makes the first profile, and takes one out with what names it', () => {
    const config = new ConfigText('', '/c.yaml')
    config.setDefault('work')
    config.setProfile('work', { account: 'yes', options: { url: 'https://a.example' } })
    config.setProfile('home', { account: '1e3', options: { local: 'true' } })
    const made = read(config.toString())
    expect(made).toMatchObject({ defaultName: 'work' })
    expect(made.all.map(({ account }) => account)).toEqual(['yes', '1e3'])
    config.removeProfile('work')
    expect(read(config.toString())).toEqual({
      path: '/c.yaml',
      all: [expect.objectContaining({ name: 'home' })],
    })
  })
})
