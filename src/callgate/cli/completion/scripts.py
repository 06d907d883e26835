"""The scripts of `callgate completion`, one a shell. Names come from servers: each shell is left to quote them."""

from __future__ import annotations

from typing import Final

BASH: Final = r"""# Completion of callgate for bash. Put this line into ~/.bashrc:
#   eval "$(callgate completion bash)"
_callgate() {
    local value files=
    COMPREPLY=()
    while IFS=$'\t' read -r value _; do
        if [[ $value == :files ]]; then
            files=1
        elif [[ -n $value ]]; then
            COMPREPLY+=("$(printf '%q' "$value")")
        fi
    done < <("$1" __complete "=${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null)
    if [[ -n $files ]]; then
        compopt -o filenames 2>/dev/null
        while IFS= read -r value; do
            COMPREPLY+=("$value")
        done < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]#=}")
    fi
}
complete -F _callgate callgate
"""

ZSH: Final = r"""#compdef callgate
# Completion of callgate for zsh. Put this line into ~/.zshrc, behind compinit:
#   eval "$(callgate completion zsh)"
_callgate() {
    local line value files=
    local -a before values shown
    before=("${(@Q)words[2,CURRENT-1]}")
    for line in "${(@f)$("${(Q)words[1]}" __complete "=${(Q)words[CURRENT]}" "${before[@]}" 2>/dev/null)}"; do
        if [[ $line == :files ]]; then
            files=1
        elif [[ -n $line ]]; then
            value=${line%%$'\t'*}
            values+=("$value")
            if [[ $line == *$'\t'* ]]; then
                shown+=("$value  -- ${line#*$'\t'}")
            else
                shown+=("$value")
            fi
        fi
    done
    (( ${#values} )) && compadd -l -d shown -a values
    [[ -n $files ]] && _files
    return 0
}
if [[ ${funcstack[1]:-} == _callgate ]]; then
    _callgate "$@"
else
    compdef _callgate callgate
fi
"""

FISH: Final = r"""# Completion of callgate for fish:
#   callgate completion fish > ~/.config/fish/completions/callgate.fish
function __callgate_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in ($words[1] __complete "=$current" $words[2..-1] 2>/dev/null)
        if test "$line" = ":files"
            __fish_complete_path $current
        else
            printf '%s\n' $line
        end
    end
end
complete -c callgate -f -a '(__callgate_complete)'
"""

POWERSHELL: Final = r"""# Completion of callgate for PowerShell. Put this line into the file that $PROFILE names:
#   callgate completion powershell | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName callgate -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | Where-Object { $_.Extent.EndOffset -lt $cursorPosition } |
        Select-Object -Skip 1 | ForEach-Object { if ($null -ne $_.Value) { $_.Value } else { $_.ToString() } })
    & $commandAst.CommandElements[0].Value __complete "=$wordToComplete" @words 2>$null | ForEach-Object {
        $value, $about = $_ -split "`t", 2
        if ($value -eq ':files') {
            [System.Management.Automation.CompletionCompleters]::CompleteFilename($wordToComplete)
        } else {
            $typed = if ($value -match '^[\w./:=@-]+$') { $value } else { "'" + $value.Replace("'", "''") + "'" }
            if (-not $about) { $about = $value }
            [System.Management.Automation.CompletionResult]::new($typed, $value, 'ParameterValue', $about)
        }
    }
}
"""

SCRIPTS: Final = {"bash": BASH, "zsh": ZSH, "fish": FISH, "powershell": POWERSHELL}
