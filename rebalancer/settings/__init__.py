"""What people write for the service: the policy file (checked, reloaded) and the service's own settings.

`problems.check_text` turns a policy's text into a `Policy` or into everything that is wrong with it; `policy_file`
follows the file and keeps the last good one; `service` reads the environment; `generate` writes the JSON schema.
"""
