"""What people write for the service: the policy file (checked, reloaded) and the service's own settings.

`problems.check_text` turns a policy's text into a `Policy` or into everything that is wrong with it; `policy_file`
follows the file, and `entries` keeps the last good form of what is wrong in it; `service` reads the environment;
`generate` writes the JSON schema.
"""
